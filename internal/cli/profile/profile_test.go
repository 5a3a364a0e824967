package profile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/flame"
)

// spin computes for a while.
func spin(d time.Duration) (sum float64) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 100000 {
			sum += math.Sqrt(float64(i))
		}
	}
	return sum
}

// takenProfile is a profile of the runtime: of two nodes, and of code without a node. It
// takes longer if this process got so little CPU time that a row is missing.
var takenProfile = sync.OnceValues(func() ([]byte, error) {
	for unit := 50 * time.Millisecond; ; unit *= 2 {
		data, err := takeProfile(unit)
		if err != nil {
			return nil, err
		}
		p, err := flame.Read(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		spent := make(map[string]time.Duration)
		for _, r := range p.Nodes() {
			spent[r.Node] = r.Time
		}
		if spent["price"] > 2*spent["route"] && spent["price"] > 2*spent[flame.Outside] && spent["route"] > 0 && spent[flame.Outside] > 0 {
			return data, nil
		}
		if unit > 2*time.Second {
			return nil, fmt.Errorf("got %v, want most for price, and some for others", spent)
		}
	}
})

func takeProfile(unit time.Duration) ([]byte, error) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		name, kind string
		units      time.Duration
	}{{"price", "snippet", 4}, {"route", "router", 1}} {
		labels := pprof.Labels("node", n.name, "kind", n.kind, "namespace", "default")
		pprof.Do(context.Background(), labels, func(context.Context) { spin(n.units * unit) })
	}
	spin(unit)
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}

func taken(t *testing.T) []byte {
	t.Helper()
	data, err := takenProfile()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// idle is a profile without samples.
func idle(t *testing.T) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		DurationNanos: 1e9,
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func adminServer(t *testing.T, answer http.HandlerFunc) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/profile", answer)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func sends(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(data) // the client sees it
	}
}

func TestProfileByNode(t *testing.T) {
	t.Chdir(t.TempDir())
	data := taken(t)
	var asked string
	address := adminServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String() + " " + r.Header.Get("Authorization")
		sends(data)(w, r)
	})
	code, out, errs := apptest.Execute(t, root, map[string]string{"UNIFLOW_ADMIN_TOKEN": "s3cret"}, "profile", address, "--seconds", "2", "-o", "cpu.pprof", "--svg", "cpu.svg")
	if code != 0 || errs != "" {
		t.Fatalf("got %d, %q, want 0 and no talk", code, errs)
	}
	if want := "/debug/pprof/profile?seconds=2 Bearer s3cret"; asked != want {
		t.Errorf("got the request %q, want %q", asked, want)
	}
	for _, want := range []string{
		`^NODE +KIND +NAMESPACE +TIME +SHARE +MOSTLY IN\n`,
		`\nprice +snippet +default +[0-9.]+ m?s +[0-9.]+ % +profile\.spin [0-9]+ %`,
		`\nroute +router +default +`,
		`\n\(outside\) +[0-9.]+ m?s`,
		`\n\n[0-9]+ samples, [0-9.]+ m?s of CPU in [0-9.]+ m?s: [0-9.]+ processors\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got\n%s\nwant %s", out, want)
		}
	}
	kept, err := os.ReadFile("cpu.pprof")
	if err != nil || !bytes.Equal(kept, data) {
		t.Errorf("got %d bytes, %v, want the %d that were sent", len(kept), err, len(data))
	}
	svg, err := os.ReadFile("cpu.svg")
	if err != nil || !bytes.Contains(svg, []byte("<title>price\nsnippet in namespace default\n")) {
		t.Errorf("got %v, %q, want price in the picture", err, svg)
	}

	code, again, errs := apptest.Execute(t, root, nil, "profile", "cpu.pprof")
	if code != 0 || again != out {
		t.Errorf("from the file: got %d, %q, %q, want %q", code, again, errs, out)
	}
	code, again, _ = apptest.Execute(t, root, nil, "profile", "cpu.pprof", "--svg", "-")
	if code != 0 || again != string(svg) {
		t.Errorf("got %d, %.50q, want the picture only", code, again)
	}
	code, again, _ = apptest.Execute(t, root, nil, "profile", address, "--seconds", "1", "-o", "-")
	if code != 0 || again != string(data) {
		t.Errorf("got %d, %d bytes, want the profile only", code, len(again))
	}
}

func TestProfileAddsUp(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "cpu.pprof", string(taken(t)))
	f := func(want string, args ...string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"profile", "cpu.pprof"}, args...)...)
		if code != 0 || errs != "" || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q: got %d, %q,\n%s\nwant %s", args, code, errs, out, want)
		}
		for line := range strings.Lines(out) {
			if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Errorf("%q: got blanks at the end of %q", args, line)
			}
		}
	}
	f(`^KIND +TIME +SHARE +NODES +MOSTLY IN\nsnippet +[0-9.]+ m?s +[0-9.]+ % +1  price 100 %\n`, "--by", "kind")
	f(`^FUNCTION +FLAT +SHARE +CUM +SHARE +MOSTLY FOR\n(.*\n)*profile\.spin +[0-9.]+ m?s +[0-9.]+ % +[0-9.]+ m?s +[0-9.]+ % +price [0-9]+ %\n`, "--by", "function", "--top", "0")
	f(`^NODE .*\nprice .*\nothers \([0-9]+\) +[0-9.]+ m?s +[0-9.]+ %\n\n`, "--top", "1")

	_, out, _ := apptest.Execute(t, root, nil, "profile", "cpu.pprof", "--json", "--top", "1")
	var report struct {
		Samples    int
		CPUSeconds float64 `json:"cpu_seconds"`
		By         string
		Rows       []nodeJSON
		Others     othersJSON
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err, out)
	}
	if report.By != "node" || len(report.Rows) != 1 || report.Rows[0].Node != "price" || report.Rows[0].Kind != "snippet" || len(report.Rows[0].Functions) == 0 {
		t.Errorf("got %+v, want the row of price", report)
	}
	if sum := report.Rows[0].Seconds + report.Others.Seconds; report.Samples == 0 || math.Abs(sum-report.CPUSeconds) > 1e-6 {
		t.Errorf("got %v s in rows, want %v", sum, report.CPUSeconds)
	}
	for _, by := range orders() {
		code, out, errs := apptest.Execute(t, root, nil, "profile", "cpu.pprof", "--json", "--by", by)
		if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"by": "`+by+`"`) {
			t.Errorf("--by %s: got %d, %q, %q, want JSON", by, code, out, errs)
		}
	}
}

// TestProfileNames has a node whose name would move the cursor.
func TestProfileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	p, err := profile.ParseData(idle(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Sample = []*profile.Sample{{Value: []int64{1, 1e7}, Label: map[string][]string{"node": {"a\x1b[2J\n\tb"}, "kind": {"名前"}}}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	apptest.Write(t, "cpu.pprof", b.String())
	_, out, _ := apptest.Execute(t, root, nil, "profile", "cpu.pprof")
	want := "NODE           KIND  NAMESPACE   TIME    SHARE  MOSTLY IN\n" +
		`a\x1b[2J\n\tb  名前               10 ms  100.0 %  (unknown) 100 %` + "\n\n1 sample, 10 ms of CPU in 1.00 s: 0.01 processors\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestProfileIdle(t *testing.T) {
	address := adminServer(t, sends(idle(t)))
	code, out, errs := apptest.Execute(t, root, nil, "profile", "http://"+address+"/", "--seconds", "1")
	if want := "NODE  KIND  NAMESPACE  TIME  SHARE  MOSTLY IN\n\n0 samples, 0 s of CPU in 1.00 s: 0.00 processors\n"; code != 0 || out != want {
		t.Errorf("got %d, %q, want %q", code, out, want)
	}
	if want := "no samples: the program was idle\n"; errs != want {
		t.Errorf("got %q, want %q", errs, want)
	}
	_, out, _ = apptest.Execute(t, root, nil, "profile", address, "--json")
	if !strings.Contains(out, `"rows": []`) {
		t.Errorf("got %q, want no rows", out)
	}
}

func TestProfileErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "text", "no profile\n")
	fails := func(status int, kind, text string) string {
		return adminServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text) // the client sees it
		})
	}
	const plain, html = "text/plain; charset=utf-8", "text/html; charset=utf-8"
	gone := httptest.NewServer(http.NotFoundHandler())
	nobody := gone.Listener.Addr().String()
	gone.Close()
	f := func(want int, message string, args ...string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"profile"}, args...)...)
		if code != want || out != "" || !strings.Contains(errs, message) {
			t.Errorf("%q: got %d, %q, %q, want %d and %q", args, code, out, errs, want, message)
		}
	}
	f(2, "needs a server or file")
	f(2, "takes one", "a:1", "b:2")
	f(2, "--seconds must be 1 to 3600, got 0", "a:1", "--seconds", "0")
	f(2, "--seconds must be 1 to 3600, got 3601", "a:1", "--seconds", "3601")
	f(2, "hint: did you mean kind?", "a:1", "--by", "kinds")
	f(2, "hint: write 0 for all", "a:1", "--top", "-1")
	f(2, "cannot be combined", "a:1", "--svg", "-", "--json")
	f(2, "--svg: stat nowhere: no such file", "a:1", "--svg", "nowhere/x.svg")
	f(2, `"9000" is neither an address nor a file`, "9000")
	f(2, `"cpu.pprof" is neither an address nor a file`, "cpu.pprof")
	f(2, "must be http://HOST:PORT", "ftp://a:1")
	f(2, "must be http://HOST:PORT", "http://a:1/?x=y")
	f(2, "config file", nobody, "--config", "nowhere.yaml")

	f(3, "text: not a profile", "text")
	apptest.Write(t, "standard input", string(taken(t)))
	f(3, "standard input: not a profile", "-")
	f(2, ". is a folder", ".")
	f(3, "uniflow: nothing listens at "+nobody+"\nhint: is it the address", nobody)
	f(3, "requires a token\nhint: set UNIFLOW_ADMIN_TOKEN", fails(401, plain, "want the header"))
	f(3, "does not accept this token\nhint: set UNIFLOW_ADMIN_TOKEN", fails(401, plain, "want the header"), "--admin-token", "wrong")
	f(3, "403 Forbidden: ask for localhost", fails(403, plain, "ask for localhost or its address"))
	f(3, "is not an admin server: it answers 404 Not Found\nhint: write the address", fails(404, plain, "no"))
	f(3, "it answers 200 OK with a page of HTML", fails(200, html, "<html>"))
	f(3, "it answers 500 Internal Server Error with a page of HTML", fails(500, html, "<html>"))
	f(3, "what it sent is not a profile", fails(200, plain, "pong"))
	f(3, "it answers 302 Found", fails(302, plain, ""))
	f(3, "another CPU profile is being taken of this program\nhint: wait", fails(500, plain, "Could not enable CPU profiling: cpu profiling already in use\n"))
	f(3, `500 Internal Server Error: Could not\x1b[2J`, fails(500, plain, "Could not\x1b[2J\nmore"))
	f(3, "closed the connection before the profile was taken", adminServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	f(3, "closed the connection before the profile was taken", adminServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "x") // and the connection is closed
	}))

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	f(3, "requires HTTPS\nhint: write https://127.0.0.1:", secure.Listener.Addr().String())

	var heap bytes.Buffer
	if err := pprof.WriteHeapProfile(&heap); err != nil {
		t.Fatal(err)
	}
	apptest.Write(t, "heap", heap.String())
	f(3, "heap: not a profile of the CPU: it holds alloc_objects", "heap")
	f(3, "not a profile of the CPU", adminServer(t, sends(heap.Bytes())))
}

// TestProfileHalf prints the table although the picture cannot be written.
func TestProfileHalf(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "cpu.pprof", string(taken(t)))
	code, out, errs := apptest.Execute(t, root, nil, "profile", "cpu.pprof", "--svg", ".")
	if code != app.ExitFailure || !strings.Contains(out, "price") || !strings.Contains(errs, "is a directory") {
		t.Errorf("got %d, %q, %q, want the table and the reason", code, out, errs)
	}
	var talk bytes.Buffer
	code = app.Main(t.Context(), []string{"profile", "cpu.pprof"}, apptest.Machine(apptest.Broken{}, &talk, nil), root)
	if code != app.ExitFailure || !strings.Contains(talk.String(), "standard output: disk full") {
		t.Errorf("got %d, %q, want the reason", code, talk.String())
	}
}

// TestProfileToken sends the token of a config file, but not after a redirection.
func TestProfileToken(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, ".uniflow.yaml", "admin-token: filed\nnamespace: other\n")
	var asked string
	address := adminServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Authorization")
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	code, _, errs := apptest.Execute(t, root, nil, "profile", address)
	if code != app.ExitFailure || asked != "Bearer filed" || !strings.Contains(errs, "302 Found") {
		t.Errorf("got %d, %q, %q, want the token of the file and 302", code, asked, errs)
	}
}

// TestProfileEscapes shows what a server says without the escapes that a terminal
// would obey.
func TestProfileEscapes(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var server sync.WaitGroup
	server.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 500 x\x1b[31m\r\nContent-Length: 0\r\n\r\n"); err != nil {
			t.Error(err)
		}
	})
	code, _, errs := apptest.Execute(t, root, nil, "profile", l.Addr().String())
	server.Wait()
	if code != app.ExitFailure || !strings.Contains(errs, `it answers 500 x\x1b[31m`) || strings.Contains(errs, "\x1b") {
		t.Errorf("got %d, %q", code, errs)
	}
}

// TestProfileInterrupted ends while the server measures.
func TestProfileInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan struct{})
	address := adminServer(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(left)
	})
	var out, errs bytes.Buffer
	code := app.Main(ctx, []string{"profile", address, "--seconds", "3600", "-o", "cpu.pprof"}, apptest.Machine(&out, &errs, nil), root)
	if code != app.ExitFailure || !strings.Contains(errs.String(), "ended before the profile was taken") || out.Len() > 0 {
		t.Errorf("got %d, %q, %q, want an end", code, out.String(), errs.String())
	}
	<-left // so the program does not measure on
	if _, err := os.Stat("cpu.pprof"); err == nil {
		t.Error("got a file, want none of what was not taken")
	}
}

// TestProfileProgress shows the wait on terminals only.
func TestProfileProgress(t *testing.T) {
	address := adminServer(t, sends(idle(t)))
	f := func(terminal bool, env map[string]string, want bool) {
		t.Helper()
		var out, errs bytes.Buffer
		m := apptest.Machine(&out, &errs, env)
		m.Terminal = func(stream io.Writer) bool { return terminal && stream == io.Writer(&errs) }
		code := app.Main(t.Context(), []string{"profile", address}, m, root)
		shown, gone := strings.Contains(errs.String(), "profiling "+address+": 0 of 10 s"), strings.Contains(errs.String(), "\r\x1b[Kno samples")
		if code != 0 || shown != want || gone != want {
			t.Errorf("terminal %v, %v: got %d, %q, want shown %v", terminal, env, code, errs.String(), want)
		}
	}
	f(true, nil, true)
	f(true, map[string]string{"NO_COLOR": "1"}, true)
	f(true, map[string]string{"TERM": "dumb"}, false)
	f(false, nil, false)
}

func TestProfileSource(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "there:80", "")
	f := func(arg, want string) {
		t.Helper()
		from, err := profileSource("uniflow profile", arg)
		if err != nil {
			t.Fatal(err)
		}
		got := "file"
		if from.url != nil {
			got = from.url.JoinPath(profilePath).String()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", arg, got, want)
		}
	}
	f("there:80", "file")
	f("-", "file")
	f("gone:80", "http://gone:80/debug/pprof/profile")
	f(":9000", "http://localhost:9000/debug/pprof/profile")
	f("[::1]:9000", "http://[::1]:9000/debug/pprof/profile")
	f("https://ops.example.com/flows/", "https://ops.example.com/flows/debug/pprof/profile")
}
