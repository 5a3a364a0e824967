package graph

// turn is how far a link that leads back goes past a layer before it turns.
const turn = layerGap * 0.6

// route gives each link its path. A link bends between layers and passes them straight, so it is over
// no node.
func (p *part) route() {
	p.paths = make([][]Point, len(p.links))
	left, right := make([]float64, len(p.layers)), make([]float64, len(p.layers)) // of each layer
	for i, layer := range p.layers {
		for _, v := range layer {
			left[i], right[i] = p.vertices[v].x, max(right[i], p.vertices[v].x+p.vertices[v].width)
		}
	}
	before, after := 0.0, 0.0 // what turns need at the sides
	for i, k := range p.links {
		from, to := &p.vertices[k.from], &p.vertices[k.to]
		start := Point{from.x + from.width, from.y + from.height*share(from.outs, k.out)}
		end := Point{to.x, to.y + to.height*share(to.ins, k.in)}
		path := []Point{start}
		straight := func(to Point) { path = append(path, line(path[len(path)-1], to)...) }
		curve := func(to Point) { path = append(path, bend(path[len(path)-1], to)...) }
		straight(Point{right[from.rank], start.Y})
		if !k.back {
			for _, v := range k.chain {
				at := p.vertices[v]
				curve(Point{left[at.rank], at.y})
				straight(Point{right[at.rank], at.y})
			}
			curve(end)
			p.paths[i] = path
			continue
		}
		lane := p.vertices[k.chain[len(k.chain)-1]].y
		path = append(path, around(path[len(path)-1], Point{right[from.rank], lane}, turn)...)
		for j := len(k.chain) - 1; j >= 0; j-- {
			at := p.vertices[k.chain[j]]
			curve(Point{right[at.rank], at.y})
			straight(Point{left[at.rank], at.y})
		}
		path = append(path, around(path[len(path)-1], end, -turn)...)
		p.paths[i] = path
		if to.rank == 0 {
			before = turn
		}
		if from.rank == len(p.layers)-1 {
			after = turn
		}
	}
	if before > 0 {
		for i := range p.vertices {
			p.vertices[i].x += before
		}
		for _, path := range p.paths {
			move(path, before, 0)
		}
	}
	p.width += before + after
}

// line is a straight piece of a path; nothing if it has no length.
func line(from, to Point) []Point {
	if from == to {
		return nil
	}
	x, y := (to.X-from.X)/3, (to.Y-from.Y)/3
	return []Point{{from.X + x, from.Y + y}, {to.X - x, to.Y - y}, to}
}

// bend is a piece that is level at its ends.
func bend(from, to Point) []Point {
	if from.Y == to.Y {
		return line(from, to)
	}
	middle := (from.X + to.X) / 2
	return []Point{{middle, from.Y}, {middle, to.Y}, to}
}

// around is a piece that turns back.
func around(from, to Point, far float64) []Point {
	return []Point{{from.X + far, from.Y}, {to.X + far, to.Y}, to}
}
