package observe_test

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/observe"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestParseTrace reads what the specification allows, and nothing else.
func TestParseTrace(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	f := func(header string, wantOK, wantSampled bool) {
		t.Helper()
		got, ok := observe.ParseTrace(header, "vendor=1")
		if ok != wantOK || got.Sampled != wantSampled {
			t.Errorf("%q: got %v, %v, want ok %v, sampled %v", header, got, ok, wantOK, wantSampled)
		}
		if ok && (got.String()[:53] != "00-"+id+"-"+span+"-" || got.State != "vendor=1") {
			t.Errorf("%q: got %q with state %q", header, got, got.State)
		}
	}
	f("00-"+id+"-"+span+"-01", true, true)
	f(" 00-"+id+"-"+span+"-00 ", true, false)
	f("00-"+id+"-"+span+"-ff", true, true)
	f("00-"+id+"-"+span+"-02", true, false)
	f("01-"+id+"-"+span+"-01", true, true)        // a later version
	f("01-"+id+"-"+span+"-01-more", true, true)   // with a field that we do not know
	f("01-"+id+"-"+span+"-01more", false, false)  // which must be set off
	f("00-"+id+"-"+span+"-01-more", false, false) // and the first version has none
	f("ff-"+id+"-"+span+"-01", false, false)      // is not to be used
	f("00-"+strings.Repeat("0", 32)+"-"+span+"-01", false, false)
	f("00-"+id+"-"+strings.Repeat("0", 16)+"-01", false, false)
	f("00-"+strings.ToUpper(id)+"-"+span+"-01", false, false)
	f("00-"+id+"-"+span+"-0g", false, false)
	f("00-"+id+"-"+span, false, false)
	f("00_"+id+"-"+span+"-01", false, false)
	f("", false, false)
}

// TestBadState is not passed on, and does no harm to the trace.
func TestBadState(t *testing.T) {
	for _, state := range []string{strings.Repeat("x", 10<<10), "v=\xff", "v=\n", "v=ä"} {
		got, ok := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", state)
		if !ok || got.State != "" {
			t.Errorf("%.10q: got %v with %d bytes of state, want none", state, ok, len(got.State))
		}
	}
}

func TestTraceOf(t *testing.T) {
	if got, ok := observe.TraceOf(t.Context()); ok {
		t.Errorf("got %v, want none", got)
	}
	want, _ := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	ctx, cancel := context.WithCancel(observe.WithTrace(t.Context(), want))
	defer cancel()
	if got, ok := observe.TraceOf(ctx); !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	if got := (observe.Trace{}).String(); got != "" {
		t.Errorf("got %q of no trace", got)
	}
}

func FuzzParseTrace(f *testing.F) {
	for _, seed := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-0000000000000000-00", "",
	} {
		f.Add(seed, "a=b")
	}
	f.Fuzz(func(t *testing.T, header, state string) {
		got, ok := observe.ParseTrace(header, state)
		if !ok {
			if got != (observe.Trace{}) {
				t.Errorf("got %v of a header that is none", got)
			}
			return
		}
		again, ok := observe.ParseTrace(got.String(), got.State)
		if !ok || again != got {
			t.Errorf("%q: got %v, and of that %v", header, got, again)
		}
	})
}
