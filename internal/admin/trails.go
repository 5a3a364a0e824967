package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Limits of what clients ask stores of events.
const (
	trailMemory = 64 << 20 // bytes of a query
	trailTime   = 30 * time.Second
	trailNames  = 200 // names of events that are listed
)

// trailFolders returns the folders of the stores that nodes have, sorted.
func (s *Server) trailFolders() (folders []string) {
	for _, v := range s.opts.Outline().Vertices {
		if v.Def == nil || v.Def.Traits == nil {
			continue
		}
		if folder := v.Def.Traits(v.Config).Events; folder != "" {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

func (s *Server) trails(w http.ResponseWriter, _ *http.Request) {
	all := []api.Trail{}
	for _, folder := range s.trailFolders() {
		all = append(all, s.trail(folder))
	}
	s.json(w, all)
}

// trail tells what is in a store.
func (s *Server) trail(folder string) api.Trail {
	shown := api.Trail{Folder: folder, Events: []api.TrailEvent{}, Properties: []string{}}
	store, err := trail.Open(folder, trail.Options{ReadOnly: true})
	if err != nil {
		shown.Error = s.opts.Redact(err.Error())
		return shown
	}
	info := store.Info()
	if err := store.Close(); err != nil {
		shown.Error = s.opts.Redact(err.Error())
	}
	shown.Rows, shown.Users = info.Rows, info.Users
	if info.Rows > 0 {
		from, to := time.UnixMilli(info.MinTime).UTC(), time.UnixMilli(info.MaxTime).UTC()
		shown.From, shown.To = &from, &to
	}
	for _, e := range info.Events[:min(len(info.Events), trailNames)] {
		shown.Events = append(shown.Events, api.TrailEvent{Name: s.opts.Redact(e.Name), Count: e.Count})
	}
	for _, p := range info.Schema {
		shown.Properties = append(shown.Properties, s.opts.Redact(p.Name))
	}
	return shown
}

// trailQuery asks a store. A client that leaves ends the query.
func (s *Server) trailQuery(w http.ResponseWriter, r *http.Request) {
	var body api.TrailQuery
	if !read(w, r, &body, "a folder and a query") {
		return
	}
	if !slices.Contains(s.trailFolders(), body.Folder) {
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("no node has the store %q", body.Folder), "see "+api.Base+"trails")
		return
	}
	q, err := query.Parse("", []byte(body.Query))
	if err != nil {
		hint := ""
		if errs, ok := errors.AsType[query.Errors](err); ok && len(errs) > 0 {
			hint = errs[0].Hint
		}
		api.Fail(w, http.StatusBadRequest, s.opts.Redact(err.Error()), hint)
		return
	}
	text, err := answer(r, body.Folder, q)
	if err != nil {
		api.Fail(w, http.StatusUnprocessableEntity, s.opts.Redact(err.Error()), "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, http.StatusOK, []byte(s.opts.Redact(string(text))))
}

// answer asks a store, which is open as long.
func answer(r *http.Request, folder string, q *query.Query) (text []byte, err error) {
	store, err := trail.Open(folder, trail.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	a, err := store.Query(r.Context(), q, trail.QueryOptions{Memory: trailMemory, Timeout: trailTime})
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}
