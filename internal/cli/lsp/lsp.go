// Package lsp is the front of uniflow lsp: it serves an editor by the Language Server Protocol.
//
// Read [Serve], then session.go: what an editor asks for. protocol.go has the messages, frames.go how they
// are sent, files.go which documents there are, positions.go how places are counted.
//
// The package must not know what documents mean: package language answers.
package lsp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/handler"

	"github.com/uniflow-labs/uniflow/internal/language"
)

// A Host is the program around a language server.
type Host struct {
	Workspace *language.Workspace
	Version   string

	// Test runs a test, by NAMESPACE/NAME, in the files of a workflow, and returns what it prints. The files
	// are those on disk.
	Test func(ctx context.Context, files []string, name string) (output string, err error)
}

// Serve serves one editor until it leaves or ctx ends. It owns out until then.
func Serve(ctx context.Context, in io.Reader, out io.Writer, h Host) error {
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(ctx, h)
	server := jrpc2.NewServer(s.methods(), &jrpc2.ServerOptions{AllowPush: true, Concurrency: 4})
	s.server = server
	defer s.workers.Wait()
	defer cancel()
	s.workers.Go(s.check)
	from, to := io.Pipe()
	s.leave = func() {
		server.Stop()
		_ = from.Close() // it has no errors
	}
	var input sync.WaitGroup // not waited for: an editor may leave in open until the program has ended
	input.Go(func() {
		_, err := io.Copy(to, in)
		_ = to.CloseWithError(err) // it has no errors
	})
	stop := context.AfterFunc(ctx, s.leave)
	defer stop()
	server.Start(&frames{bufio.NewReader(from), out})
	err := server.Wait()
	if s.left() || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("language server: %w", err)
	}
	return nil
}

// plain is a method whose parameters do not matter.
func plain(do func()) handler.Func {
	return func(context.Context, *jrpc2.Request) (any, error) {
		do()
		return nil, nil
	}
}

// methods are the methods of the protocol.
func (s *session) methods() handler.Map {
	return handler.Map{
		"initialize":                      handler.New(s.initialize),
		"initialized":                     plain(s.initialized),
		"shutdown":                        plain(s.shutdown),
		"exit":                            plain(s.exit),
		"$/cancelRequest":                 handler.New(s.cancel),
		"$/setTrace":                      plain(func() {}),
		"textDocument/didOpen":            handler.New(s.didOpen),
		"textDocument/didChange":          handler.New(s.didChange),
		"textDocument/didSave":            handler.New(s.didSave),
		"textDocument/didClose":           handler.New(s.didClose),
		"workspace/didChangeWatchedFiles": handler.New(s.didChangeWatchedFiles),
		"textDocument/completion":         handler.New(s.completion),
		"textDocument/hover":              handler.New(s.hover),
		"textDocument/definition":         handler.New(s.definition),
		"textDocument/references":         handler.New(s.references),
		"textDocument/documentSymbol":     handler.New(s.documentSymbol),
		"workspace/symbol":                handler.New(s.workspaceSymbol),
		"textDocument/formatting":         handler.New(s.formatting),
		"textDocument/prepareRename":      handler.New(s.prepareRename),
		"textDocument/rename":             handler.New(s.rename),
		"textDocument/codeAction":         handler.New(s.codeAction),
		"textDocument/codeLens":           handler.New(s.codeLens),
		"workspace/executeCommand":        handler.New(s.executeCommand),
	}
}
