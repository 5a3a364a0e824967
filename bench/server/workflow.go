package server

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

// A Workflow is a document that uniflow serves.
type Workflow struct {
	Name     string
	Document func(port string) string
	Path     string // that answers GET with 200; /ping if empty
	Program  string // uniflow
	Dir      string // of the document and the log, which have the name
	Flags    []string
	Env      []string // as in Options
}

// Serve writes the document with a free port and serves it.
func (w Workflow) Serve(ctx context.Context) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(w.Program)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.Dir, w.Name+".yaml")
	if err := os.WriteFile(file, []byte(w.Document(port)), 0o600); err != nil {
		return nil, err
	}
	path := w.Path
	if path == "" {
		path = "/ping"
	}
	return Start(ctx, Options{
		Name: w.Name, Addr: addr, Path: path, Program: binary, Env: w.Env, Log: filepath.Join(w.Dir, w.Name+".log"),
		Args: append([]string{"start", "--from-specs", file}, w.Flags...),
	})
}
