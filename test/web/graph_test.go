package web_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/uniflow-labs/uniflow/internal/graph"
)

// dagreFile is where the package of Debian has the layout that many products use.
const dagreFile = "/usr/share/nodejs/dagre/dist/dagre.js"

// crossings counts, for each graph, the crossings of the links as we and as dagre draw them. Curves are
// taken as twelve lines.
const crossings = `(() => {
	const lines = path => {
		const at = [[path[0].X, path[0].Y]]
		for (let i = 0; i + 3 < path.length; i += 3) {
			const [a, b, c, d] = path.slice(i, i + 4)
			for (let step = 1; step <= 12; step++) {
				const u = step / 12, v = 1 - u
				const mix = of => v*v*v*of(a) + 3*v*v*u*of(b) + 3*v*u*u*of(c) + u*u*u*of(d)
				at.push([mix(p => p.X), mix(p => p.Y)])
			}
		}
		return at
	}
	const side = (p, q, r) => (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
	const cross = (a, b, c, d) => side(a, b, c) * side(a, b, d) < -1e-9 && side(c, d, a) * side(c, d, b) < -1e-9
	const count = paths => {
		let n = 0
		paths.forEach((p, i) => paths.slice(0, i).forEach(q => {
			for (let x = 0; x + 1 < p.length; x++)
				for (let y = 0; y + 1 < q.length; y++)
					if (cross(p[x], p[x+1], q[y], q[y+1])) n++
		}))
		return n
	}
	return graphs.map(({Graph, Paths}) => {
		const g = new dagre.graphlib.Graph({multigraph: true})
		g.setGraph({rankdir: "LR", nodesep: 24, edgesep: 12, ranksep: 72})
		Graph.Nodes.forEach((n, i) => g.setNode(i, {width: n.Width, height: n.Height}))
		Graph.Links.forEach((l, i) => g.setEdge(l.From, l.To, {}, i))
		dagre.layout(g)
		return [count(Paths.map(lines)), count(g.edges().map(e => g.edge(e).points.map(p => [p.x, p.y])))]
	})
})()`

// TestCrossings draws a hundred graphs with fewer crossings than dagre: of all links, and of most graphs.
// Links end in one place at each side of a node here, as dagre knows no others.
func TestCrossings(t *testing.T) {
	type drawn struct {
		Graph graph.Graph
		Paths [][]graph.Point
	}
	var graphs []drawn
	for seed := range uint64(100) {
		g := graphLikeFlow(rand.New(rand.NewPCG(seed, 1)), 10+int(seed)%60)
		graphs = append(graphs, drawn{g, graph.Layout(g).Paths})
	}
	data, err := json.Marshal(graphs)
	if err != nil {
		t.Fatal(err)
	}
	dagre, err := os.ReadFile(dagreFile)
	if err != nil {
		t.Fatal(err)
	}
	ctx := newBrowser(t, nil).ctx
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[][2]int](string(dagre)+";\nconst graphs = "+string(data)+";\n"+crossings))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, more := 0, 0, 0
	for _, n := range got {
		ours, theirs = ours+n[0], theirs+n[1]
		if n[0] > n[1] {
			more++
		}
	}
	t.Logf("%d graphs: %d crossings, %d with dagre; more in %d graphs", len(got), ours, theirs, more)
	if len(got) != len(graphs) || ours > theirs || more > len(graphs)/5 {
		t.Errorf("got %v", got)
	}
}

// graphLikeFlow returns a graph of chains and branches, with some links that join or lead back.
func graphLikeFlow(r *rand.Rand, nodes int) (g graph.Graph) {
	for i := range nodes {
		g.Nodes = append(g.Nodes, graph.Node{Width: 200, Height: 48, Outer: -1, Begins: i == 0})
		if i > 0 {
			g.Links = append(g.Links, graph.Link{From: max(0, i-1-r.IntN(5)), To: i})
		}
	}
	for range nodes / 3 {
		from := r.IntN(nodes)
		to := min(nodes-1, from+1+r.IntN(12))
		if r.IntN(10) == 0 {
			to = max(0, from-r.IntN(12))
		}
		g.Links = append(g.Links, graph.Link{From: from, To: to})
	}
	return g
}
