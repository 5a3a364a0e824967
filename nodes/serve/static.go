package serve

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed static.md
var staticPage string

func staticDef() *node.Def {
	return &node.Def{
		Kind:    "static",
		Summary: "Answers the request of a listener with a file of a folder.",
		Page:    node.ReadPage(staticPage),
		Config: schema.Fields(
			schema.String("root").Required().Doc("The folder."),
			schema.String("strip").Doc("What a path begins with that is not part of the name of a file, such as `/assets`. A path that does not begin with it is not found."),
			schema.String("index").Default("index.html").Doc("The file that is the answer for a folder. Empty is none."),
			schema.Bool("spa").Default(false).Doc("Whether a path that has no file, and no dot in its last part, is answered with the `index` of the root: an application in the browser then shows the page."),
			schema.String("cache_control").Default("no-cache").Doc("The header `Cache-Control`. With the default a client asks each time whether the file has changed. Empty is none."),
			schema.Strings("immutable").Doc("Patterns of files that never change under their names, such as `*-????????.js` or `fonts/*`: clients keep them for a year without asking. A pattern without a slash is about the name, else about the path from the root."),
			schema.Strings("compressed").Default([]string{"br", "zstd", "gzip"}).Doc("Which compressed files to look for next to a file: `br`, `zstd`, `gzip`, in the order of preference. An empty list is none."),
		),
		In:      []node.Port{{Name: "in", Doc: "The request of a listener."}},
		Error:   "There is no such file, or it cannot be read.",
		Traits:  node.Fixed(node.Traits{Is: node.SendsParts | node.IgnoresBody | node.Inside, Needs: []node.Need{handover.Needed()}}),
		OpenAPI: staticOpenAPI,
		Recall:  node.Always(node.Attached),
		New:     newStatic,
	}
}

// A static serves the files of a folder.
type static struct {
	log       *slog.Logger
	dir       string
	strip     string // begins with a slash and does not end with one; may be empty
	index     string
	spa       bool
	codings   []coding
	cache     []string // the values of Cache-Control, as net/http has them
	immutable []string

	root *folderRoot // from Open on
}

func newStatic(init *node.Init) (node.Node, error) {
	c := init.Config
	n := &static{
		log: init.Log, dir: c.String("root"), index: c.String("index"), spa: c.Bool("spa"), immutable: c.Strings("immutable"),
	}
	var err error
	if n.strip, err = stripOf(c); err != nil {
		return nil, err
	}
	if info, err := os.Stat(n.dir); err == nil && !info.IsDir() { // one that is not there yet may be made before the start
		return nil, c.Errorf("root", diag.CodeBadValue, "%s is not a folder", n.dir).WithHint("write the folder that the files are in")
	}
	if _, err := os.Stat(n.dir); errors.Is(err, fs.ErrNotExist) && !c.Hidden("root") {
		init.AddWarning(c.Errorf("root", diag.CodeNoFile, "there is no folder %q now", n.dir).WithHint("make it before the start; paths count from the folder that the program runs in"))
	}
	if n.index != "" && (!fs.ValidPath(n.index) || strings.ContainsAny(n.index, `/\`)) {
		return nil, c.Errorf("index", diag.CodeBadValue, "want the name of a file").WithHint("write one such as index.html")
	}
	if n.spa && n.index == "" {
		return nil, c.Errorf("spa", diag.CodeBadValue, "there is no index to answer with").WithHint("leave index out, or name a file in it")
	}
	for _, pattern := range n.immutable {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, c.Errorf("immutable", diag.CodeBadValue, "%q is not a pattern of files", pattern).WithHint("write one such as *.js; * stands for any characters except for a slash")
		}
	}
	for _, name := range c.Strings("compressed") {
		coding, ok := codings[name]
		if !ok {
			return nil, c.Errorf("compressed", diag.CodeBadValue, "%q is not one of br, zstd, gzip", name)
		}
		n.codings = append(n.codings, coding)
	}
	if cache := c.String("cache_control"); cache != "" {
		if strings.ContainsFunc(cache, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, c.Errorf("cache_control", diag.CodeBadValue, "has characters that a header cannot have")
		}
		n.cache = []string{cache}
	}
	return n, nil
}

// stripOf reads the field strip: a prefix of paths, or nothing.
func stripOf(c schema.Config) (string, error) {
	strip := strings.TrimSuffix(c.String("strip"), "/")
	if strip != "" && (strip[0] != '/' || strings.ContainsAny(strip, "%?#*:\x00\\")) {
		return "", c.Errorf("strip", diag.CodeBadValue, "want the beginning of a path, as it is without escapes").WithHint("write one such as /assets")
	}
	return strip, nil
}

func (n *static) Open(context.Context) error {
	root, err := openFolder(n.dir)
	if err != nil {
		where, absErr := filepath.Abs(n.dir)
		if absErr != nil {
			where = n.dir
		}
		return &node.Error{Err: errors.New("root: the folder " + where + " cannot be opened: " + reason(err))}
	}
	n.root = root
	return nil
}

func (n *static) Close() error { return n.root.Close() }

// reason returns what is wrong with a file, without its name.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// Receive finds the file of a request.
func (n *static) Receive(p node.Process, pkt node.Packet) node.Result {
	r := handover.Request(p.Context())
	if r == nil {
		return node.Fail(errors.New("want the request of a listener: there is nothing else to answer with a file"))
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		handover.SetHeader(p.Context(), "Allow", "GET, HEAD")
		return node.Fail(refusal(http.StatusMethodNotAllowed, ""))
	}
	target := pathOf(r, pkt.Payload)
	return node.Block(func(ctx context.Context) node.Result {
		a, err := n.find(r, target)
		if err != nil {
			return node.Fail(err)
		}
		if !handover.Leave(ctx, a) {
			return node.Fail(errors.Join(errTaken, a.Close()))
		}
		return node.None()
	})
}

var errTaken = errors.New("there is no request to take over: another node has taken it, or it has been answered")

// pathOf returns the path in the payload, which the workflow may have changed, or the path
// of the request if the payload has none.
func pathOf(r *http.Request, payload value.Value) string {
	if payload.Kind() == value.KindMap {
		if field, ok := payload.Get("path"); ok {
			if s, ok := field.AsString(); ok {
				return s
			}
		}
	}
	return r.URL.Path
}

// staticOpenAPI describes the answers of a node.
func staticOpenAPI(schema.Config) value.Value {
	file := openapi.Object("*/*", value.Map())
	described := func(text string) value.Value { return openapi.Object("description", text) }
	return openapi.Object("responses", openapi.Object(
		"200", openapi.Object("description", "A file.", "content", file),
		"206", openapi.Object("description", "Ranges of a file.", "content", file),
		"301", described("The path of a folder ends with a slash."),
		"304", described("The client has the file."),
		"403", described("The file cannot be read."),
		"404", described("There is no such file."),
		"412", described("The file is not that of the request."),
		"416", described("The file has no such range."),
	))
}
