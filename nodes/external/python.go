package external

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed python.md
var pythonPage string

// pythonShim runs the code of the user. It gets its first line from [python.first].
//
//go:embed python.py
var pythonShim string

func pythonDef() *node.Def {
	return &node.Def{
		Kind:    "python",
		Summary: "Runs a function in Python for each packet.",
		Page:    node.ReadPage(pythonPage),
		Config: schema.Fields(append([]*schema.Field{
			schema.Text("code").Doc("The code. It has the function."),
			schema.String("file").Doc("The file with the code, relative to the document, in place of `code`. What is in the same folder can be imported."),
			schema.String("function").Default("handle").Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`).Doc("The function. It gets the payload, and returns the answer."),
			schema.String("python").Default("python3").Doc("The interpreter, of Python 3.8 or later: a name, or a path such as that of a virtual environment, `.venv/bin/python`. A path is relative to the document."),
		}, processFields("30s")...)...),
		In:     []node.Port{{Name: "in", Doc: "Any payload."}},
		Out:    []node.Port{{Name: "out", Doc: "What the function returns."}},
		Recall: node.Always(node.Effects),
		New:    newPython,
	}
}

// A python is a node whose packets a function in Python answers.
type python struct {
	*lines
	code diag.Text // in the document; empty for a file
	file string
}

func newPython(init *node.Init) (node.Node, error) {
	c := init.Config
	if c.Has("code") == c.Has("file") {
		return nil, c.Errorf("code", diag.CodeBadValue, "the code is either here or in a file").WithHint("write code: | with a function %s(payload), or file: handler.py", c.String("function"))
	}
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	base, err := filepath.Abs(filepath.Dir(c.Pos("python").File))
	if err != nil {
		return nil, err
	}
	n := &python{lines: newLines(init, s), code: c.Text("code"), file: "<code>"}
	text, folder := n.code.Code, base
	if c.Has("file") {
		n.file = relativeTo(base, c.String("file"))
		data, err := os.ReadFile(n.file)
		if err != nil {
			return nil, c.Errorf("file", diag.CodeBadValue, "%w", err).WithHint("a path is relative to the document")
		}
		text, folder = string(data), filepath.Dir(n.file)
	}
	interpreter := c.String("python")
	if strings.ContainsRune(interpreter, filepath.Separator) {
		interpreter = relativeTo(base, interpreter)
	}
	s.Command, s.Dir, s.Ready = []string{interpreter, "-u", "-c", pythonShim}, base, true
	first, err := value.Map(
		value.Field{Name: "code", Value: value.String(text)}, value.Field{Name: "file", Value: value.String(n.file)},
		value.Field{Name: "folder", Value: value.String(folder)}, value.Field{Name: "function", Value: value.String(c.String("function"))},
	).AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	s.First = string(first)
	if s.Sandbox != nil {
		s.Sandbox.Read = append(s.Sandbox.Read, ofInterpreter(interpreter)...)
		if c.Has("file") {
			s.Sandbox.Read = append(s.Sandbox.Read, folder)
		}
	}
	n.failure = n.failed
	return n, nil
}

func relativeTo(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// ofInterpreter returns the folder of the virtual environment that an interpreter is in.
func ofInterpreter(path string) []string {
	folder := filepath.Dir(filepath.Dir(path))
	if _, err := os.Stat(filepath.Join(folder, "pyvenv.cfg")); err == nil && filepath.IsAbs(path) {
		return []string{folder}
	}
	return nil
}

// Open starts Python. What it reports of the code is an error at its place.
func (n *python) Open(ctx context.Context) error {
	err := n.lines.Open(ctx)
	var unready *unreadyError
	if errors.As(err, &unready) {
		e := node.Describe(n.failed(unready.failure, failureOf(unready.failure, "python")))
		if at := e.At(); at.IsValid() {
			return fmt.Errorf("%s: %w", at, e)
		}
		return e
	}
	if errors.Is(err, errNotReady) {
		field := "file"
		if n.code.Code != "" {
			field = "code"
		}
		return n.init.Config.Errorf(field, diag.CodeBadNode, "%w", err).WithHint("the code runs before the first packet: do in the function %s what takes long", n.init.Config.String("function"))
	}
	return err
}

// failed returns an error of the function, with its place in the code.
func (n *python) failed(failure value.Value, e *node.Error) error {
	line, _ := failure.Get("line")
	number, ok := line.AsInt()
	if !ok {
		return e
	}
	pos := diag.Pos{File: n.file, Line: int(number), Col: 1}
	if n.code.Code != "" {
		pos = n.code.Pos(int(number), 1)
	}
	e.Err = &lang.Thrown{Message: e.Err.Error(), Status: e.Status, Code: e.Code, Pos: pos}
	return e
}
