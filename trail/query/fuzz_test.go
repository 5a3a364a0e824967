package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse parses any bytes without a panic. A query that
// parses passes Check, which does not change it.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.txt"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("got %d files, %v", len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for _, doc := range strings.FieldsFunc(strings.NewReplacer("\n---\n", "\x00", "\n====\n", "\x00", "\n----\n", "\x00").Replace(string(data)), func(r rune) bool { return r == 0 }) {
				f.Add([]byte(doc))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := Parse("f", data)
		if err != nil {
			var list Errors
			if !errors.As(err, &list) || len(list) == 0 || list[0].Msg == "" || q != nil {
				t.Fatalf("got %v, %#v, want Errors with messages", q, err)
			}
			return
		}
		again, err := Parse("f", data)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Check(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(q, again) {
			t.Fatalf("got %+v after another check, want %+v", again, q)
		}
	})
}

// FuzzUnmarshal reads any bytes as an answer without a panic. What was read is written
// as JSON that is read as the same.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"steps":[{"event":"a","users":9},{"event":"b","users":5,"ci":[3,7],"time":{"median_ms":9,"p90_ms":9,"histogram":[{"below":"1h","users":3},{"users":1}]}}],` +
			`"groups":[{"country":"KR","n":5,"steps":[]},{"other":true,"steps":[]}],"trend":[{"bucket":"2026-01-05","steps":[]}],"stats":{"sample":1.0}}`,
		`{"rows":[{"bucket":"a","other":true,"value":3},{"bucket":"b","country":"KR","value":9,"ci":[1,2]}],"stats":{"through":"2026-01-31T09:00:00Z"}}`,
		`{"cohorts":[{"start":"2026-01-05","size":9,"size_ci":[8,10],"periods":[9],"periods_ci":[[8,10]]}],"stats":{}}`,
		`{"cohort":"buyers","users":9,"ids":["u1"],"stats":{"warnings":["w"]}}`,
		`{"paths":[{"path":["a","b"],"users":9}],"stats":{}}`,
		`{"steps":[],"groups":[{"other":true,"steps":[]},{"other":"x","steps":[]}],"stats":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, again Answer
		if json.Unmarshal(data, &a) != nil {
			return
		}
		text, err := json.Marshal(&a)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if twice, err := json.Marshal(&again); err != nil || !bytes.Equal(twice, text) {
			t.Fatalf("got %s, %v, want %s", twice, err, text)
		}
	})
}
