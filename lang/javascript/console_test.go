package javascript

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

func TestConsole(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})).With("node", "n")
	f := func(code string, opts lang.Options, want string) {
		t.Helper()
		opts.Log = logger
		log.Reset()
		p := compile(t, language, code, opts)
		if got := log.String(); got != "" {
			t.Errorf("%s: got %q written while it was compiled, want nothing", code, got)
		}
		if _, err := p.Eval(t.Context(), fromJSON(t, `{"a":{"b":[1,"x"]}}`)); err != nil {
			t.Errorf("%s: got error %v", code, err)
		}
		if got := log.String(); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
	const end = " node=n from=console\n"
	f("console.log('top'); export default i => console.log('a', 1, i.a, null, undefined, [i.a.b])", lang.Options{},
		"level=INFO msg=top"+end+`level=INFO msg="a 1 {\"b\":[1,\"x\"]} null undefined [[1,\"x\"]]"`+end)
	f("export default () => { console.info('i'); console.warn('w'); console.error(new TypeError('e')); console.debug('d') }", lang.Options{},
		"level=INFO msg=i"+end+"level=WARN msg=w"+end+`level=ERROR msg="TypeError: e"`+end+"level=DEBUG msg=d"+end)
	f("console.log(a) ?? 1", lang.Options{Mode: lang.ModeExpression}, `level=INFO msg="{\"b\":[1,\"x\"]}"`+end)
	f("export default () => { const o = {}; o.o = o; console.log(o, () => 1, Symbol('s'), 2n) }", lang.Options{},
		`level=INFO msg="[object Object] () => 1 Symbol(s) 2"`+end)

	log.Reset()
	p := compile(t, language, "export default () => { for (let k = 0; k < 1000; k++) console.log('é'.repeat(5000)) }", lang.Options{Log: logger})
	for range 2 { // the limits are per run
		log.Reset()
		if _, err := p.Eval(t.Context(), value.Null()); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != maxRecords+1 || !strings.Contains(lines[maxRecords], "dropped") || len(lines[0]) > maxRecord+100 || strings.Contains(log.String(), "\\x") {
			t.Errorf("got %d records, the first of %d bytes, the last %q; want %d of about %d, and one that says so", len(lines), len(lines[0]), lines[len(lines)-1], maxRecords, maxRecord)
		}
	}
	check(t, language, "export default () => console.log('no log')", lang.Options{}, value.Null(), value.Null())
}
