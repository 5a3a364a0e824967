package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// full returns an error with each field set.
func full(cause error) *node.Error {
	return &node.Error{
		Err: cause, Status: http.StatusTooManyRequests, Code: "E7", Public: true, RetryAfter: 90 * time.Second, Outage: true, Permanent: true,
		Challenges: []string{"Basic", `Bearer realm="x"`}, Data: value.List(value.Int(1), value.String("two")), Letter: value.Map(value.Field{Name: "id", Value: value.Int(7)}),
		Node: node.Ref{ID: "id1", Kind: "http", Namespace: "default", Name: "call", Pos: diag.Pos{File: "flow.yaml", Line: 3, Col: 5}},
	}
}

// A permanent error is one of another type than *node.Error.
type permanent struct{ error }

func (permanent) IsPermanent() bool { return true }

// samples are values of every kind.
func samples() map[string]value.Value {
	zone := time.FixedZone("CET", 3600)
	deep := value.Int(1)
	for range 200 {
		deep = value.List(deep, value.Map(value.Field{Name: "a", Value: value.Null()}))
	}
	all := map[string]value.Value{
		"null": value.Null(), "true": value.Bool(true), "false": value.Bool(false), "empty list": value.List(), "empty map": value.Map(),
		"min int": value.Int(math.MinInt64), "max int": value.Int(math.MaxInt64), "max uint": value.Uint(math.MaxUint64), "small uint": value.Uint(3),
		"float": value.Float(0.1), "minus zero": value.Float(math.Copysign(0, -1)), "infinity": value.Float(math.Inf(-1)), "nan": value.Float(math.NaN()), "whole float": value.Float(2),
		"duration": value.Duration(-time.Hour), "utc": value.Time(time.Unix(1, 999_999_999).UTC()), "zone": value.Time(time.Unix(1e9, 5).In(zone)), "year 1": value.Time(time.Time{}),
		"far": value.Time(time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC)), "empty text": value.String(""), "text": value.String("é\x00\"" + strings.Repeat("x", 1000)),
		"binary": value.Binary([]byte{0, 255, 1}), "empty binary": value.Binary(nil), "deep": deep,
		"map": value.Map(value.Field{Name: "b", Value: value.Int(1)}, value.Field{Name: "a", Value: value.List(value.Bool(true), value.Binary([]byte("x")))}, value.Field{Name: "", Value: value.Null()}),
	}
	for name, err := range failures() {
		all[name] = value.Error(err)
		all[name+" in a map"] = value.Map(value.Field{Name: "errors", Value: value.List(value.Error(err), value.Int(1))})
	}
	return all
}

// failures are errors of every form.
func failures() map[string]error {
	nested := error(errors.New("bottom"))
	for range 100 {
		nested = full(errors.Join(nested, context.Canceled))
	}
	all := map[string]error{
		"plain": errors.New("plain"), "empty": errors.New(""), "node": full(errors.New("cause")), "node in node": full(full(errors.New("cause"))), "bare node": &node.Error{Err: errors.New("bare")},
		"joined": errors.Join(errors.New("one"), full(errors.New("two")), context.DeadlineExceeded), "permanent": permanent{errors.New("for good")}, "node of permanent": &node.Error{Err: permanent{errors.New("for good")}},
		"two wrapped": fmt.Errorf("both %w and %w", errors.New("one"), node.ErrStopped), "data is an error": &node.Error{Err: errors.New("x"), Data: value.Error(full(errors.New("y")))}, "nested": nested,
		"wraps a node": node.Describe(fmt.Errorf("while calling: %w", full(errors.New("cause")))),
	}
	for i, s := range sentinels {
		all[fmt.Sprint("sentinel ", i)] = s
		all[fmt.Sprint("wraps sentinel ", i)] = fmt.Errorf("while waiting: %w", s)
		all[fmt.Sprint("node of sentinel ", i)] = &node.Error{Err: fmt.Errorf("while waiting: %w", s), Status: 504}
	}
	return all
}

// TestCodec checks that a value is the same when it has been stored, and that it is stored in the same way again:
// what is stored is compared by its hash.
func TestCodec(t *testing.T) {
	for name, v := range samples() {
		t.Run(name, func(t *testing.T) {
			data := encode(v)
			got, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind() != v.Kind() || got.String() != v.String() {
				t.Errorf("got %s %s, want %s %s", got.Kind(), got, v.Kind(), v)
			}
			if again := encode(got); !bytes.Equal(again, data) {
				t.Errorf("stored again it is\n%q, was\n%q", clip(again), clip(data))
			}
			clear(data)
			if got.String() != v.String() {
				t.Error("it shares memory with the bytes")
			}
		})
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }

// TestCodecTime checks what the text of a time does not show.
func TestCodecTime(t *testing.T) {
	for _, want := range []time.Time{time.Unix(1, 2).UTC(), time.Unix(1e9, 5).In(time.FixedZone("CET", 3600)), {}} {
		v, err := decode(encode(value.Time(want)))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := v.AsTime()
		gotName, gotOffset := got.Zone()
		name, offset := want.Zone()
		if !got.Equal(want) || gotName != name || gotOffset != offset {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestCodecErrors checks what nodes, triggers and expressions ask of an error: it is the same when it was stored.
func TestCodecErrors(t *testing.T) {
	for name, want := range failures() {
		t.Run(name, func(t *testing.T) {
			v, err := decode(encode(value.Error(want)))
			if err != nil {
				t.Fatal(err)
			}
			got := v.AsError()
			if got.Error() != want.Error() {
				t.Errorf("Error: got %q, want %q", got, want)
			}
			if got, want := node.Message(got), node.Message(want); got != want {
				t.Errorf("Message: got %q, want %q", got, want)
			}
			for _, s := range sentinels {
				if errors.Is(got, s) != errors.Is(want, s) {
					t.Errorf("errors.Is %v: got %v", s, errors.Is(got, s))
				}
			}
			g, w := node.Describe(got), node.Describe(want)
			if g.Status != w.Status || g.Code != w.Code || g.Public != w.Public || g.RetryAfter != w.RetryAfter || g.Outage != w.Outage ||
				g.IsPermanent() != w.IsPermanent() || g.Retryable() != w.Retryable() || fmt.Sprint(g.Challenges) != fmt.Sprint(w.Challenges) ||
				g.Data.String() != w.Data.String() || g.Letter.String() != w.Letter.String() || g.Node != w.Node {
				t.Errorf("got %+v, want %+v", g, w)
			}
			if got, want := value.Map(g.ErrorFields()...).String(), value.Map(w.ErrorFields()...).String(); got != want {
				t.Errorf("fields: got %s, want %s", got, want)
			}
		})
	}
}

// TestCodecDepth checks that what can be stored can be read again, however deep it is.
func TestCodecDepth(t *testing.T) {
	list := value.Int(1)
	for range value.MaxDepth {
		list = value.List(list)
	}
	err := errors.New("bottom")
	for range maxErrorDepth - 1 {
		err = &node.Error{Err: err}
	}
	for name, v := range map[string]value.Value{"lists": list, "errors": value.Error(err), "lists in the data of an error in a list": value.List(value.Error(&node.Error{Err: errors.New("x"), Data: list}))} {
		if _, err := decode(encode(v)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResponseCodec checks responses with and without a payload.
func TestResponseCodec(t *testing.T) {
	for _, want := range []node.Response{{None: true}, {}, {Payload: value.Int(3)}, {Payload: value.Error(full(errors.New("x")))}} {
		got, err := decodeResponse(encodeResponse(want))
		if err != nil || got.None != want.None || got.Payload.String() != want.Payload.String() {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if _, err := decodeResponse(nil); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("of nothing: %v", err)
	}
}

// hostile are bytes that are not valid.
func hostile() map[string][]byte {
	lists := append([]byte{form}, bytes.Repeat([]byte{byte(value.KindList), 1}, 100_000)...)
	within := append([]byte{form, byte(value.KindError)}, bytes.Repeat([]byte{nodeError}, 100_000)...)
	joins := append([]byte{form, byte(value.KindError)}, bytes.Repeat([]byte{joined, 0, 200}, 1_000)...)
	return map[string][]byte{
		"nothing": nil, "no value": {form}, "another form": append([]byte{2}, encode(value.Int(1))[1:]...), "more than one": append(encode(value.Int(1)), 0),
		"unknown kind": {form, 200}, "long list": {form, byte(value.KindList), 0xff, 0xff, 0xff, 0xff, 0x0f}, "long text": {form, byte(value.KindString), 0xff, 0xff, 0x03, 'x'},
		"unknown sentinel": {form, byte(value.KindError), sentinel, 99}, "unknown error": {form, byte(value.KindError), 77},
		"many joined": {form, byte(value.KindError), joined, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, "deep lists": lists, "deep errors": within, "deep joins": joins,
		"many challenges": {form, byte(value.KindError), nodeError, plainError, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"cut":             encode(value.Error(full(errors.New("x"))))[:20],
	}
}

// TestDamaged checks that bytes that are not valid are found to be so.
func TestDamaged(t *testing.T) {
	for name, data := range hostile() {
		if v, err := decode(data); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: got %v, %v", name, v.Kind(), err)
		}
	}
	whole := encode(value.Map(value.Field{Name: "e", Value: value.Error(errors.Join(full(errors.New("x")), context.Canceled))}))
	for n := range whole {
		if _, err := decode(whole[:n]); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

// TestDecodeBounded decodes lists within lists, each of which says that it is as long as the rest.
func TestDecodeBounded(t *testing.T) {
	data := []byte{form}
	for range value.MaxDepth - 1 {
		data = append(append(data, byte(value.KindList)), 0xff, 0xff, 0x03) // 65,535
	}
	data = append(data, make([]byte, 1<<16)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := decode(data); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("%d bytes took %d MiB", len(data), took>>20)
	}
}

// FuzzDecode checks that decode refuses bytes or returns a value that is stored and read without a change.
func FuzzDecode(f *testing.F) {
	for _, v := range samples() {
		f.Add(encode(v))
	}
	for _, data := range hostile() {
		f.Add(data[:min(len(data), 4096)])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		v, err := decode(data)
		if err != nil {
			return
		}
		first := encode(v)
		again, err := decode(first)
		if err != nil {
			t.Fatalf("what was stored cannot be read: %v", err)
		}
		if again.String() != v.String() {
			t.Fatalf("got %s, want %s", again, v)
		}
		if second := encode(again); !bytes.Equal(second, first) {
			t.Fatalf("stored again it is\n%q, was\n%q", second, first)
		}
	})
}
