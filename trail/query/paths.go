package query

import (
	"errors"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

const (
	maxPath     = 7      // events next to the anchor
	maxTop      = 10_000 // paths that are answered
	defaultTop  = 20
	defaultPath = 4
)

type pathsKind struct{}

func (pathsKind) name() string           { return "paths" }
func (pathsKind) of(q *Query) bool       { return q.Paths != nil }
func (pathsKind) answers(a *Answer) bool { return a.Paths != nil }
func (pathsKind) reach(q *Query) Bounds  { return q.Paths.Bounds }

// Paths counts what users did after or before an anchor.
type Paths struct {
	Anchor   Match
	Previous bool          // paths lead to the anchor; else from it
	Steps    int           // events in addition to the anchor, 1 to 7; default 4
	Gap      time.Duration // a longer pause ends the path; 0 for none
	Top      int           // paths that are answered, up to 10,000; default 20
	Where    *Filter       // of all events that count, anchors too
	Bounds
}

// A PathsAnswer has the paths by users descending, then by path.
type PathsAnswer struct {
	Paths []Path
}

// A Path is a sequence of events in order of time, without repeats, and the number of
// users with that sequence.
type Path struct {
	Path  []string
	Users Number
}

func (pathsKind) read(p *parser, n *doctree.Node, q *Query) {
	a := new(Paths)
	q.Paths = a
	none := false
	p.keys(n, "paths", p.placed(n, append([]key{
		{"anchor", func(n *doctree.Node) { p.match(n, "anchor", &a.Anchor) }},
		{"direction", func(n *doctree.Node) {
			var s string
			if p.text(n, "direction", &s); s == "" || s == "next" {
				return
			}
			a.Previous = s == "previous"
			if !a.Previous {
				p.report(Pos(n.Pos), hintOf(s, []string{"next", "previous"}, map[string]string{
					"after": "next", "forward": "next", "forwards": "next", "before": "previous", "backward": "previous", "backwards": "previous", "prev": "previous",
				}), "unknown direction %s", quote(s))
			}
		}},
		{"steps", func(n *doctree.Node) { p.counted(n, "steps", 1, maxPath, &a.Steps) }},
		{"gap", func(n *doctree.Node) { p.duration(n, "gap", &a.Gap, &none) }},
		{"top", func(n *doctree.Node) { p.counted(n, "top", 1, maxTop, &a.Top) }},
		{"where", func(n *doctree.Node) { a.Where = p.filter(n) }},
	}, p.bounds(&a.Bounds)...)))
	if _, ok := p.places["anchor"]; !ok && n.Kind == doctree.Map {
		p.report(p.places[""], "write anchor: signup", "paths need an anchor")
	}
}

func (pathsKind) check(c *checker, q *Query) {
	a := q.Paths
	c.match(&a.Anchor, "anchor")
	fill(&a.Steps, defaultPath)
	c.between("steps", a.Steps, 1, maxPath)
	if a.Gap != 0 {
		c.duration("gap", a.Gap)
	}
	fill(&a.Top, defaultTop)
	c.between("top", a.Top, 1, maxTop)
	c.filter(&a.Where, "paths")
	c.bounds(a.Bounds)
}

func (pathsKind) selects() (keys []string, example string) {
	return []string{"path"}, "{path: [signup, view]}"
}

func (pathsKind) selected(c *checker, q *Query) {
	a, s := q.Paths, q.Users
	if len(s.Path) == 0 {
		c.selection(q, "path", "write users: {path: [signup, view]}", "users of paths need a path")
		return
	}
	if slices.Contains(s.Path, "") {
		c.selection(q, "path", "", "users: an event has no name")
	}
	if n := len(s.Path); n > a.Steps+1 && !c.bad["steps"] {
		c.selection(q, "path", "or ask for more steps", "users: a path of %d events; the answer has up to %d, the anchor included", n, a.Steps+1)
	}
	end, which := s.Path[0], "begin"
	if a.Previous {
		end, which = s.Path[len(s.Path)-1], "end"
	}
	if len(a.Anchor.Events) > 0 && !slices.Contains(a.Anchor.Events, end) && !c.bad["anchor"] {
		c.selection(q, "path", "write a list of the events in order of time, such as path: [signup, view]", "users: paths %s with the anchor, %s, not with %s", which, list(a.Anchor.Events), quote(end))
	}
}

func (pathsKind) write(w answerWriter, answer *Answer) {
	writeObjects(w, "paths", answer.Paths.Paths, func(p Path) {
		writeList(w, "path", p.Path, w.Text)
		w.users(p.Users)
	})
}

type pathsJSON struct {
	Paths *[]pathJSON `json:"paths"`
}

type pathJSON struct {
	Path []string `json:"path"`
	userJSON
}

func (pathsKind) unmarshal(in *answerJSON, a *Answer) (err error) {
	if in.Paths == nil {
		return nil
	}
	a.Paths = &PathsAnswer{}
	for _, p := range *in.Paths {
		n, wrong := p.number()
		err = errors.Join(err, wrong)
		a.Paths.Paths = append(a.Paths.Paths, Path{Path: p.Path, Users: n})
	}
	return err
}
