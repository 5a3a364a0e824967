package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/language"
	"github.com/uniflow-labs/uniflow/spec"
)

// quiet is how long an author must not type before documents are checked.
const quiet = 150 * time.Millisecond

// runTest is the command that runs a test. Its arguments are the file and the name.
const runTest = "uniflow.runTest"

// A session is one editor.
type session struct {
	Host
	ctx     context.Context
	server  *jrpc2.Server
	leave   func() // ends the session
	workers sync.WaitGroup
	dirty   chan struct{} // documents have changed; buffer of one

	mu       sync.Mutex
	snippets bool // the editor takes items with places to go on
	watch    bool // it reports files that change
	folders  []string
	open     map[string]*opened            // by file
	texts    map[string]string             // of all documents, by file
	changed  map[string]bool               // files to check
	found    map[string][]language.Finding // that were reported, by file
	ended    bool
}

// An opened is a document that is open in the editor.
type opened struct {
	uri     string // as the editor writes it
	version int
	text    string
}

func newSession(ctx context.Context, h Host) *session {
	return &session{
		Host: h, ctx: ctx, dirty: make(chan struct{}, 1),
		open: make(map[string]*opened), texts: make(map[string]string), changed: make(map[string]bool), found: make(map[string][]language.Finding),
	}
}

func (s *session) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *session) initialize(_ context.Context, p initializeParams) (r initializeResult, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.WorkspaceFolders {
		s.folders = append(s.folders, fileOf(f.URI))
	}
	if len(s.folders) == 0 && p.RootURI != "" {
		s.folders = append(s.folders, fileOf(p.RootURI))
	}
	s.snippets = p.Capabilities.TextDocument.Completion.CompletionItem.SnippetSupport
	s.watch = p.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration
	r.ServerInfo.Name, r.ServerInfo.Version = "uniflow", s.Version
	c := &r.Capabilities
	c.TextDocumentSync.OpenClose, c.TextDocumentSync.Change, c.TextDocumentSync.Save = true, 2, true
	c.CompletionProvider.TriggerCharacters = []string{":", " ", "{", "[", "-"}
	c.HoverProvider, c.DefinitionProvider, c.ReferencesProvider = true, true, true
	c.DocumentSymbolProvider, c.WorkspaceSymbolProvider, c.DocumentFormattingProvider = true, true, true
	c.RenameProvider = map[string]bool{"prepareProvider": true}
	c.CodeActionProvider = map[string]any{"codeActionKinds": []string{"quickfix"}}
	c.CodeLensProvider = map[string]bool{"resolveProvider": false}
	c.ExecuteCommandProvider = map[string]any{"commands": []string{runTest}}
	return r, nil
}

// initialized reads the folders of the editor, and asks it to report what changes in them.
func (s *session) initialized() {
	s.mu.Lock()
	folders, watch := slices.Clone(s.folders), s.watch
	s.mu.Unlock()
	for _, folder := range folders {
		walk(folder, func(file string, text []byte) { s.set(file, string(text)) })
	}
	if !watch {
		return
	}
	s.workers.Go(func() { // what follows a notification waits for it, and may be what the editor does first
		watchers := []map[string]string{{"globPattern": "**/*.{yaml,yml,json}"}}
		registration := map[string]any{"id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": map[string]any{"watchers": watchers}}
		if _, err := s.server.Callback(s.ctx, "client/registerCapability", map[string]any{"registrations": []any{registration}}); err != nil {
			return // the editor does not report them, so files count as they are when they are saved in it
		}
	})
}

// cancel ends a request that the editor does not wait for any more.
func (s *session) cancel(_ context.Context, p struct {
	ID json.RawMessage `json:"id"`
}) error {
	s.server.CancelRequest(string(p.ID))
	return nil
}

func (s *session) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *session) exit() {
	s.shutdown()
	s.leave()
}

// set takes a text into the workspace if it is a workflow document, and has it checked.
func (s *session) set(file, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isWorkflow(file, []byte(text)) {
		s.drop(file)
		return
	}
	s.texts[file] = text
	s.Workspace.Set(spec.Document{File: file, Data: []byte(text)})
	if s.open[file] != nil {
		s.mark(file)
	}
}

// drop takes a file out of the workspace. The caller holds mu.
func (s *session) drop(file string) {
	if _, ok := s.texts[file]; ok || s.open[file] != nil {
		s.mark(file)
	}
	delete(s.texts, file)
	s.Workspace.Remove(file)
}

// mark has a file checked soon. The caller holds mu.
func (s *session) mark(file string) {
	s.changed[file] = true
	select {
	case s.dirty <- struct{}{}:
	default: // it is noted already
	}
}

func (s *session) didOpen(_ context.Context, p didOpenParams) error {
	file := fileOf(p.TextDocument.URI)
	s.mu.Lock()
	s.open[file] = &opened{p.TextDocument.URI, p.TextDocument.Version, p.TextDocument.Text}
	s.mu.Unlock()
	s.set(file, p.TextDocument.Text)
	return nil
}

func (s *session) didChange(_ context.Context, p didChangeParams) error {
	file := fileOf(p.TextDocument.URI)
	s.mu.Lock()
	o := s.open[file]
	if o == nil {
		s.mu.Unlock()
		return fmt.Errorf("%s is not open", file)
	}
	o.version = p.TextDocument.Version
	for _, c := range p.ContentChanges {
		if c.Range == nil {
			o.text = c.Text
			continue
		}
		l := linesOf(file, o.text)
		from, to := l.offset(c.Range.Start), l.offset(c.Range.End)
		o.text = o.text[:from] + c.Text + o.text[max(from, to):]
	}
	text := o.text
	s.mu.Unlock()
	s.set(file, text)
	return nil
}

// didSave checks again: files that documents name may have changed.
func (s *session) didSave(_ context.Context, p documentParams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for file := range s.open {
		s.mark(file)
	}
	return nil
}

func (s *session) didClose(_ context.Context, p documentParams) error {
	file := fileOf(p.TextDocument.URI)
	s.mu.Lock()
	delete(s.open, file)
	s.mu.Unlock()
	s.reread(file)
	return nil
}

func (s *session) didChangeWatchedFiles(_ context.Context, p watchedFilesParams) error {
	for _, c := range p.Changes {
		s.reread(fileOf(c.URI))
	}
	return nil
}

// reread takes a file as it is on disk, unless it is open.
func (s *session) reread(file string) {
	s.mu.Lock()
	_, isOpen := s.open[file]
	s.mu.Unlock()
	if isOpen {
		return
	}
	if text, ok := read(file); ok && isDocument(file) {
		s.set(file, string(text))
	} else {
		s.mu.Lock()
		s.drop(file)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for open := range s.open { // which may belong to the same workflow
		s.mark(open)
	}
}

// check checks the documents that have changed once nothing has for a moment, until the session ends.
func (s *session) check() {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.dirty:
			timer.Reset(quiet)
			continue
		case <-timer.C:
		}
		s.mu.Lock()
		files := make([]string, 0, len(s.changed))
		for f := range s.changed {
			files = append(files, f)
		}
		clear(s.changed)
		s.mu.Unlock()
		slices.Sort(files)
		done := make(map[string]bool)
		for _, file := range files {
			if done[file] || s.ctx.Err() != nil {
				continue
			}
			found := s.Workspace.Check(file)
			if _, ok := found[file]; !ok { // it is not a workflow document any more
				found[file] = nil
			}
			for f, list := range found {
				done[f] = true
				s.publish(f, list)
			}
		}
	}
}

// publish reports the findings of a file, unless it has none and had none.
func (s *session) publish(file string, list []language.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, text := s.open[file], s.texts[file]
	if len(list) == 0 && len(s.found[file]) == 0 && o == nil {
		return
	}
	s.found[file] = list
	p := publishDiagnosticsParams{URI: s.uri(file), Diagnostics: diagnosticsOf(linesOf(file, text), list)}
	if o != nil {
		p.Version = o.version
	}
	if err := s.server.Notify(s.ctx, "textDocument/publishDiagnostics", p); err != nil {
		return // the editor is gone, and Serve says so
	}
}

func diagnosticsOf(l *lines, list []language.Finding) []diagnostic {
	all := []diagnostic{}
	for _, f := range list {
		all = append(all, diagnosticOf(l, f))
	}
	return all
}

func diagnosticOf(l *lines, f language.Finding) diagnostic {
	message := f.Msg
	if f.Path != "" {
		message = f.Path + ": " + message
	}
	if f.Hint != "" {
		message += "\n" + f.Hint
	}
	severity := 1
	if f.Severity == diag.SeverityWarning {
		severity = 2
	}
	return diagnostic{Range: l.span(f.Range), Severity: severity, Code: string(f.Code), Source: "uniflow", Message: message}
}

// uri returns the URI of a file, as the editor writes it if it is open. The caller holds mu.
func (s *session) uri(file string) string {
	if o := s.open[file]; o != nil {
		return o.uri
	}
	return uriOf(file)
}

// lines returns the text of a file.
func (s *session) lines(file string) *lines {
	s.mu.Lock()
	defer s.mu.Unlock()
	return linesOf(file, s.texts[file])
}

// place returns the place that a request is about.
func (s *session) place(p positionParams) (diag.Pos, *lines) {
	l := s.lines(fileOf(p.TextDocument.URI))
	return l.place(p.Position), l
}

// locations returns ranges of any documents as the protocol has them.
func (s *session) locations(all []language.Range) []location {
	texts := make(map[string]*lines)
	list := make([]location, len(all))
	for i, r := range all {
		file := r.From.File
		if texts[file] == nil {
			texts[file] = s.lines(file)
		}
		list[i].Range = texts[file].span(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range all {
		list[i].URI = s.uri(r.From.File)
	}
	return list
}

// edits returns edits by document.
func (s *session) edits(all []language.Edit) workspaceEdit {
	ranges := make([]language.Range, len(all))
	for i, e := range all {
		ranges[i] = e.Range
	}
	changes := make(map[string][]textEdit)
	for i, at := range s.locations(ranges) {
		changes[at.URI] = append(changes[at.URI], textEdit{at.Range, all[i].Text})
	}
	return workspaceEdit{changes}
}

func (s *session) completion(_ context.Context, p positionParams) ([]completionItem, error) {
	at, l := s.place(p)
	items := []completionItem{}
	for i, item := range s.Workspace.Complete(at) {
		c := completionItem{
			Label: item.Label, Kind: itemKinds[item.Class], Detail: item.Detail, SortText: fmt.Sprintf("%05d", i),
			TextEdit: textEdit{l.span(item.Edit.Range), item.Edit.Text}, InsertTextMode: 1,
		}
		if item.Doc != "" {
			c.Documentation = &markup{"markdown", item.Doc}
		}
		if s.snippets && len(item.Stops) > 0 {
			c.TextEdit.NewText, c.InsertTextFormat = snippet(item), 2
		}
		items = append(items, c)
	}
	return items, nil
}

var itemKinds = map[language.Class]int{
	language.ClassKind: itemModule, language.ClassField: itemProperty, language.ClassWord: itemEnum,
	language.ClassNode: itemRef, language.ClassPort: itemValue, language.ClassVariable: itemVariable,
}

// snippet writes the text of an item with its stops.
func snippet(item language.Item) string {
	escape := strings.NewReplacer(`\`, `\\`, `$`, `\$`, `}`, `\}`)
	var b strings.Builder
	from := 0
	for i, stop := range item.Stops {
		b.WriteString(escape.Replace(item.Edit.Text[from:stop]))
		fmt.Fprintf(&b, "$%d", i+1)
		from = stop
	}
	b.WriteString(escape.Replace(item.Edit.Text[from:]))
	return b.String()
}

func (s *session) hover(_ context.Context, p positionParams) (*hover, error) {
	at, l := s.place(p)
	r, doc, ok := s.Workspace.Hover(at)
	if !ok {
		return nil, nil
	}
	return &hover{markup{"markdown", doc}, l.span(r)}, nil
}

func (s *session) definition(_ context.Context, p positionParams) (*location, error) {
	at, _ := s.place(p)
	r, ok := s.Workspace.Definition(at)
	if !ok {
		return nil, nil
	}
	return &s.locations([]language.Range{r})[0], nil
}

func (s *session) references(_ context.Context, p referenceParams) ([]location, error) {
	at, _ := s.place(p.positionParams)
	return s.locations(s.Workspace.References(at, p.Context.IncludeDeclaration)), nil
}

func (s *session) documentSymbol(_ context.Context, p documentParams) ([]symbol, error) {
	file := fileOf(p.TextDocument.URI)
	return symbolsOf(s.lines(file), s.Workspace.Symbols(file)), nil
}

func symbolsOf(l *lines, all []language.Symbol) []symbol {
	list := []symbol{}
	for _, one := range all {
		list = append(list, symbol{one.Name, one.Kind, symbolObject, l.span(one.Range), l.span(one.At), symbolsOf(l, one.Inner)})
	}
	return list
}

// maxSymbols bounds what a search in all documents returns.
const maxSymbols = 500

func (s *session) workspaceSymbol(_ context.Context, p struct {
	Query string `json:"query"`
}) ([]symbolInformation, error) {
	all := []symbolInformation{}
	var ranges []language.Range
	query := strings.ToLower(p.Query)
	for _, file := range s.Workspace.Files() {
		for _, one := range s.Workspace.Symbols(file) {
			if len(all) < maxSymbols && strings.Contains(strings.ToLower(one.Name), query) {
				all = append(all, symbolInformation{Name: one.Name, Kind: symbolObject, ContainerName: one.Kind})
				ranges = append(ranges, one.At)
			}
		}
	}
	for i, at := range s.locations(ranges) {
		all[i].Location = at
	}
	return all, nil
}

func (s *session) formatting(_ context.Context, p documentParams) ([]textEdit, error) {
	file := fileOf(p.TextDocument.URI)
	edits, list := s.Workspace.Format(file)
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("not formatted: %w", err)
	}
	all, l := []textEdit{}, s.lines(file)
	for _, e := range edits {
		all = append(all, textEdit{l.span(e.Range), e.Text})
	}
	return all, nil
}

func (s *session) prepareRename(_ context.Context, p positionParams) (*prepared, error) {
	at, l := s.place(p)
	r, name, ok := s.Workspace.Renamable(at)
	if !ok {
		return nil, nil
	}
	return &prepared{l.span(r), name}, nil
}

func (s *session) rename(_ context.Context, p renameParams) (workspaceEdit, error) {
	at, _ := s.place(p.positionParams)
	edits, err := s.Workspace.Rename(at, p.NewName)
	if err != nil {
		return workspaceEdit{}, err
	}
	return s.edits(edits), nil
}

func (s *session) codeAction(_ context.Context, p codeActionParams) ([]codeAction, error) {
	file := fileOf(p.TextDocument.URI)
	l := s.lines(file)
	s.mu.Lock()
	var near []language.Finding
	for _, f := range s.found[file] {
		if r := l.span(f.Range); !less(p.Range.End, r.Start) && !less(r.End, p.Range.Start) {
			near = append(near, f)
		}
	}
	s.mu.Unlock()
	all := []codeAction{}
	for _, a := range s.Workspace.Actions(file, near) {
		action := codeAction{Title: a.Title, Kind: "quickfix", Edit: s.edits(a.Edits)}
		if a.Finding != nil {
			action.Diagnostics, action.IsPreferred = []diagnostic{diagnosticOf(l, *a.Finding)}, true
		}
		all = append(all, action)
	}
	return all, nil
}

func less(a, b position) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Character < b.Character
}

func (s *session) codeLens(_ context.Context, p documentParams) ([]codeLens, error) {
	file := fileOf(p.TextDocument.URI)
	all, l := []codeLens{}, s.lines(file)
	for _, t := range s.Workspace.Tests(file) {
		all = append(all, codeLens{l.span(t.Range), command{"run test", runTest, []string{p.TextDocument.URI, t.Name}}})
	}
	return all, nil
}

func (s *session) executeCommand(ctx context.Context, p executeParams) (any, error) {
	if p.Command != runTest || len(p.Arguments) != 2 {
		return nil, fmt.Errorf("the command is %s, with a file and the name of a test", runTest)
	}
	output, err := s.Test(ctx, s.Workspace.Workflow(fileOf(p.Arguments[0])), p.Arguments[1])
	message := showMessageParams{3, strings.TrimSpace(output)}
	if err != nil {
		message = showMessageParams{1, strings.TrimSpace(output + "\n" + err.Error())}
	}
	return nil, s.server.Notify(ctx, "window/showMessage", message)
}
