package spec

// Group groups documents by their nodes: two are in one workflow if one links to a node of the other, or
// uses a kind that the other declares by a spec of a kind that templates reports. If joined, all are in
// one. The result has the indexes of the documents, in their order.
func Group(documents [][]*Node, joined bool, templates func(kind string) bool) [][]int {
	type target struct{ namespace, name, id string }
	kindOf := func(kind string) target { return target{"\x00", kind, ""} }
	first := make(map[target]int) // the document that has the node
	parent := make([]int, len(documents))
	find := func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	links := make([][]target, len(documents))
	own := make([]map[target]bool, len(documents))
	for i, nodes := range documents {
		parent[i] = i
		if joined || len(documents) == 1 {
			parent[i] = 0
			continue
		}
		own[i] = make(map[target]bool)
		for _, n := range nodes {
			if n.Outer != nil {
				continue // its links stay within the sub-graph
			}
			names := []target{{n.Namespace, n.Name, ""}, {n.Namespace, "", n.ID}}
			if templates(n.Kind) {
				names = []target{kindOf(n.Declares())}
			}
			links[i] = append(links[i], kindOf(n.Kind))
			for _, t := range names {
				own[i][t] = true
				if _, ok := first[t]; !ok {
					first[t] = i
				}
			}
			for _, p := range n.Ports {
				for _, l := range p.Links {
					links[i] = append(links[i], target{n.Namespace, l.Name, l.ID})
				}
			}
		}
	}
	for i := range documents {
		for _, t := range links[i] {
			if at, ok := first[t]; ok && !own[i][t] {
				a, b := find(i), find(at)
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	var groups [][]int
	at := make(map[int]int) // by the first document
	for i := range documents {
		root := find(i)
		if _, ok := at[root]; !ok {
			at[root] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[root]] = append(groups[at[root]], i)
	}
	return groups
}
