package cel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// slow runs for minutes unless something stops it.
const slow = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"

// slows run for minutes too: one macro within another, with direct steps and without,
// over lists and the names of maps.
var slows = []string{
	slow,
	"self.all(a, self.all(b, self.all(c, dyn(a) + b + c >= 0)))",
	"self.map(a, self.map(b, self.filter(c, c < 0)))",
	"self.map(a, self.map(b, self.filter(c, dyn(c) < 0)))",
	"self.exists_one(a, self.exists(b, self.exists_one(c, false)))",
	"self.all(a, !self.exists(b, self.exists(c, {'a': [c]}.a[0] == -1)))",
	"self.all(a, !self.exists(b, a in self.filter(c, false)))",
	"[self].all(l, l.all(a, l.all(b, {'x': l}.all(name, l.all(c, c >= 0)))))",
}

func numbers(n int) value.Value {
	elems := make([]value.Value, n)
	for i := range elems {
		elems[i] = value.Int(int64(i))
	}
	return value.List(elems...)
}

func TestCostLimit(t *testing.T) {
	for _, code := range slows {
		_, err := compile(t, code, lang.Options{}).Eval(context.Background(), numbers(3000))
		if err == nil || !strings.Contains(err.Error(), "costs more than 10000000 steps") {
			t.Errorf("%s: got %v, want the cost limit", code, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, code := range slows {
		p := compile(t, code, lang.Options{Timeout: 5 * time.Millisecond})
		_, err := p.Eval(context.Background(), numbers(3000))
		var timeout *lang.Timeout
		if !errors.As(err, &timeout) || !errors.Is(err, context.DeadlineExceeded) || err.Error() != "timed out after 5ms" {
			t.Errorf("%s: got %v, want a timeout after 5ms", code, err)
		}
		if _, err := p.Eval(context.Background(), numbers(3)); err != nil {
			t.Errorf("%s after a timeout: got error %v", code, err)
		}
	}
}

func TestCancel(t *testing.T) {
	var ctx context.Context
	for _, code := range slows {
		p := compile(t, code, lang.Options{})
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(t.Context())
		_, err := p.Eval(&leaver{Context: ctx, leave: cancel}, numbers(3000))
		if !errors.Is(err, errLeft) {
			t.Errorf("%s: got %v, want %v", code, err, errLeft)
		}
	}
	if _, err := compile(t, "self", lang.Options{}).Eval(ctx, value.Null()); !errors.Is(err, errLeft) {
		t.Errorf("on a context that is done: got %v, want %v", err, errLeft)
	}
}

func TestDeadlineOfContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := compile(t, slow, lang.Options{Timeout: time.Hour}).Eval(ctx, numbers(3000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's deadline", err)
	}
}

// TestConcurrent evaluates one program in many goroutines on different payloads, with a
// lazy map in each.
func TestConcurrent(t *testing.T) {
	p := compile(t, "{'sum': list.map(x, x + id).filter(x, x > 0), 'id': id, 'q': query.q}", lang.Options{Timeout: time.Minute})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				id := value.Int(int64(g*1000 + i))
				got, err := p.Eval(t.Context(), value.Map(
					value.Field{Name: "id", Value: id},
					value.Field{Name: "list", Value: value.List(value.Int(1), value.Int(2))},
					value.Field{Name: "query", Value: value.LazyMap(source{id}, 64, 1)},
				))
				if err != nil {
					t.Errorf("got error %v", err)
					return
				}
				field, _ := got.Get("id")
				query, _ := got.Get("q")
				if !field.Equal(id) || !query.Equal(id) {
					t.Errorf("got %v, want id %v", got, id)
					return
				}
			}
		})
	}
	wg.Wait()
}

type source struct{ v value.Value }

func (s source) Fields() []value.Field { return []value.Field{{Name: "q", Value: s.v}} }

// unread is a source that must not be read.
type unread struct{ t testing.TB }

func (u unread) Fields() []value.Field {
	u.t.Error("a lazy map was read that is not used")
	return nil
}

func TestLazyMapsStayUnread(t *testing.T) {
	in := value.Map(
		value.Field{Name: "header", Value: value.LazyMap(unread{t}, 64, 1)},
		value.Field{Name: "path", Value: value.String("/ping")},
	)
	for _, code := range []string{"path == '/ping'", "self", "{'whole': self, 'h': header}"} {
		if _, err := compile(t, code, lang.Options{}).Eval(t.Context(), in); err != nil {
			t.Errorf("%s: got error %v", code, err)
		}
	}
}

func TestAllocations(t *testing.T) {
	if invariant.Race {
		return // allocations under the race detector mean nothing
	}
	in := payload()
	f := func(code string, want float64) {
		t.Helper()
		p := compile(t, code, lang.Options{})
		got := testing.AllocsPerRun(100, func() {
			if _, err := p.Eval(context.Background(), in); err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want at most %v", code, got, want)
		}
	}
	f("n > 40", 1)
	f("method == 'POST' && n > 40", 3)
	f("body.a + 1 > 1", 3)
	f("{'status': 200, 'body': body}", 10)
}

// FuzzCEL looks for expressions and payloads that panic or run away.
func FuzzCEL(f *testing.F) {
	for _, code := range []string{
		"self", "self.a[0] + 1", "a ? b : c", "self.map(x, x * 2)", "{'a': self, ?'b': self.?c}", "[1, 2.0, 3u, null, b'x']",
		"self.all(a, self.all(b, a == b))", "'%s'.format([self])", "type(self) == map", "Foo{}", "size(self) / 0", "-self",
		"self.replace('', self)", "cel.bind(a, self, [a, a])", "self.transformMap(k, v, v)", "dyn(self) in [self]", "`a b`.c",
		"self.join(self)", "timestamp(self) + duration('1s')", "self.split('').sort()", "string(self)", "optional.of(self).value()",
	} {
		f.Add(code, `{"a":[1,2],"b":{"c":null}}`)
		f.Add(code, `[1,"x",null,{},[]]`)
		f.Add(code, `"text"`)
	}
	language := New()
	f.Fuzz(func(t *testing.T, code, payload string) {
		in, err := value.ParseJSON([]byte(payload))
		if err != nil {
			in = value.String(payload)
		}
		p, err := language.Compile(diag.PlainText(code), lang.Options{Timeout: 100 * time.Millisecond})
		if err != nil {
			checkWords(t, code, err)
			return
		}
		began := time.Now()
		out, err := p.Eval(t.Context(), in)
		if err != nil && strings.Contains(err.Error(), "runtime error") {
			t.Errorf("%s on %s: got a panic: %v", code, payload, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s on %s: took %v", code, payload, took)
		}
		if out.Size() < 0 {
			t.Errorf("%s on %s: got a result of size %d", code, payload, out.Size())
		}
	})
}
