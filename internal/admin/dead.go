package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/deadletter"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// deadFiles returns the files of the sinks that the ports "error" of nodes lead to, by the id of the node.
func (s *Server) deadFiles() map[string][]string {
	outline := s.opts.Outline()
	files := make(map[string][]string)
	for _, l := range outline.Links {
		if l.OutPort != observe.ErrorPort {
			continue
		}
		at := slices.IndexFunc(outline.Vertices, func(v node.Vertex) bool { return v.Ref.ID == l.To.ID })
		if at < 0 {
			continue
		}
		v := &outline.Vertices[at]
		if v.Def == nil || v.Def.Traits == nil {
			continue
		}
		if file := v.Def.Traits(v.Config).Lines; file != "" && !slices.Contains(files[l.From.ID], file) {
			files[l.From.ID] = append(files[l.From.ID], file)
		}
	}
	return files
}

// hasLetters reports whether a file may have dead letters.
func hasLetters(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// deadFile returns a file of dead letters of a node, or answers why there is none.
func (s *Server) deadFile(w http.ResponseWriter, id string, index int) (v *node.Vertex, files []string, ok bool) {
	if v = s.vertex(w, id); v == nil {
		return nil, nil, false
	}
	files = s.deadFiles()[id]
	if len(files) == 0 {
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("the port error of node %q leads to no sink with a file of JSON", s.opts.Redact(v.Ref.String())), "")
		return nil, nil, false
	}
	if index < 0 || index >= len(files) {
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("file: want an index below %d", len(files)), "")
		return nil, nil, false
	}
	return v, files, true
}

// number reads a parameter that is a number; 0 without it.
func number(w http.ResponseWriter, r *http.Request, name string) (n int, ok bool) {
	text := r.FormValue(name)
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		api.Fail(w, http.StatusBadRequest, name+": want a number of 0 or more", "")
		return 0, false
	}
	return n, true
}

// deadLetters lists letters of a source in a file; the payloads to those who may inspect.
func (s *Server) deadLetters(w http.ResponseWriter, r *http.Request) {
	index, ok := number(w, r, "file")
	if !ok {
		return
	}
	from, ok := number(w, r, "from")
	if !ok {
		return
	}
	v, files, ok := s.deadFile(w, r.PathValue("id"), index)
	if !ok {
		return
	}
	path := files[index]
	page, err := deadletter.Read(r.Context(), path, v.Ref.String(), int64(from), api.MaxLetters)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is made with the first letter
		api.Fail(w, http.StatusInternalServerError, s.opts.Redact(err.Error()), "")
		return
	}
	scope, _ := s.auth.scope(r)
	body := api.DeadLetters{Files: s.redacted(files), Letters: []api.DeadLetter{}, Next: page.Next}
	_, err = os.Stat(deadletter.Claim(path))
	body.Begun = err == nil
	for _, l := range page.Letters {
		shown := api.DeadLetter{
			At: l.At, Sum: l.Sum(), Time: l.Field("letter", "time"), Failed: s.opts.Redact(l.Field("letter", "failed")), Place: s.opts.Redact(l.Field("letter", "place")),
			Attempts: l.Field("letter", "attempts"), Code: s.opts.Redact(l.Field("code")), Reason: s.opts.Redact(l.Reason()),
		}
		if scope >= api.Inspect {
			data, _ := l.V.Get("data")
			shown.Payload = new(s.payloadOf(&data))
		}
		body.Letters = append(body.Letters, shown)
	}
	s.json(w, body)
}

// outcomes are by [node.Requeued].
var outcomes = []string{"kept", "answered", "failed"}

// requeue sends letters again, and takes those out of the file that have ended. If the program is killed in
// between, a letter is still there.
func (s *Server) requeue(w http.ResponseWriter, r *http.Request) {
	var body api.Requeue
	if !read(w, r, &body, `{"letters": [{"at": 0, "sum": "SUM"}]}`) {
		return
	}
	if len(body.Letters) == 0 || len(body.Letters) > api.MaxLetters {
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("letters: want 1 to %d", api.MaxLetters), "")
		return
	}
	v, files, ok := s.deadFile(w, r.PathValue("id"), body.File)
	if !ok {
		return
	}
	if !s.sends.Allow() {
		w.Header().Set("Retry-After", "1")
		api.Fail(w, http.StatusTooManyRequests, fmt.Sprintf("at most %d such requests are answered in a second", sendRate), fmt.Sprintf("send up to %d letters with one", api.MaxLetters))
		return
	}
	file, err := deadletter.Open(files[body.File])
	switch {
	case errors.Is(err, deadletter.ErrLocked):
		api.Fail(w, http.StatusConflict, s.opts.Redact(err.Error()), "try again when that has ended")
		return
	case errors.Is(err, fs.ErrNotExist):
		api.Fail(w, http.StatusConflict, s.opts.Redact(err.Error()), "uniflow dead requeue may have it")
		return
	case err != nil:
		api.Fail(w, http.StatusInternalServerError, s.opts.Redact(err.Error()), "")
		return
	}
	defer func() {
		if err := file.Close(); err != nil {
			s.opts.Log.Warn("closing a file of dead letters", "error", err)
		}
	}()
	answer := make([]api.Requeued, len(body.Letters))
	var letters []*deadletter.Letter
	var lines [][]byte
	var of []int // the letter's index in the answer
	for i, wanted := range body.Letters {
		answer[i] = api.Requeued{At: wanted.At, Outcome: "gone"}
		l, err := file.At(wanted.At, wanted.Sum)
		if err == nil && (l.Source() != v.Ref.String() || slices.ContainsFunc(letters, func(other *deadletter.Letter) bool { return other.At == l.At })) {
			err = deadletter.ErrGone
		}
		if errors.Is(err, deadletter.ErrGone) {
			continue
		}
		if err != nil {
			api.Fail(w, http.StatusInternalServerError, s.opts.Redact(err.Error()), "")
			return
		}
		line, err := s.lineOf(l, wanted.Text)
		if err != nil {
			api.Fail(w, http.StatusBadRequest, s.opts.Redact(err.Error()), "")
			return
		}
		letters, lines, of = append(letters, l), append(lines, line), append(of, i)
	}
	if len(letters) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), maxSending)
		defer cancel()
		ended, err := s.opts.Requeue(ctx, v.Ref.ID, lines)
		if err != nil {
			api.Fail(w, http.StatusConflict, s.opts.Redact(err.Error()), "the letters are still in the file")
			return
		}
		for i, how := range ended {
			answer[of[i]].Outcome = outcomes[how]
			if how == node.NotRequeued {
				continue
			}
			if err := file.Remove(letters[i]); err != nil {
				answer[of[i]].Error = s.opts.Redact(err.Error())
				s.opts.Log.Error("a dead letter was sent again, and is still in its file", "error", err)
			}
		}
	}
	s.json(w, answer)
}

// lineOf returns the line of a letter, with the payload that a client has written; nil for its own.
func (s *Server) lineOf(l *deadletter.Letter, text *string) ([]byte, error) {
	if text == nil {
		return l.Raw, nil
	}
	edited, err := value.ParseJSON([]byte(*text))
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	data, _ := l.V.Get("data")
	restored, err := s.restored(edited, data)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	if _, ok := restored.Get("body"); !ok {
		return nil, errors.New("text: the payload of a message is a map with body")
	}
	return l.Edited(restored)
}

// restored returns what a client has written in place of a payload that it was shown: what is as it was shown,
// without secrets and as JSON, stays as it is.
func (s *Server) restored(edited, original value.Value) (value.Value, error) {
	shown := s.safe(original)
	if text, err := shown.AppendJSON(nil); err == nil {
		if shown, err = value.ParseJSON(text); err != nil {
			return value.Value{}, err
		}
	}
	restored := redact.Restore(edited, shown, original)
	if strings.Contains(restored.String(), redact.Hidden) && !strings.Contains(original.String(), redact.Hidden) {
		return value.Value{}, fmt.Errorf("%s is where nothing is hidden: write what is to be there", redact.Hidden)
	}
	return restored, nil
}
