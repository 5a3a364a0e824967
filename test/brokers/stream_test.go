package brokers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/cli"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

// asProgram makes the test binary the command uniflow.
const asProgram = "UNIFLOW_TEST_PROGRAM"

// programMain is the command uniflow, if the test binary was started as that.
func programMain() {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:]))
	}
}

// TestStreamExample runs examples/stream.yaml from log files to the page in Chromium, with
// reloads and kills on the way. In the end each line is counted once.
func TestStreamExample(t *testing.T) {
	lines, reloads, kills := 12_000, 3, 2
	if os.Getenv("STREAM_FAULTS") == "full" {
		lines, reloads, kills = 10_000_000, 1000, 50
	}
	kafka := brokers.FakeKafka(t)
	kafka.Create(t, "lines", 4)
	nats := brokers.StartNATS(t, brokers.NATSOptions{})
	js, err := jetstream.New(nats.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "shop", Subjects: []string{"shop.>"}, Duplicates: time.Hour}); err != nil {
		t.Fatal(err)
	}
	p := &example{
		t: t, dir: t.TempDir(), addr: freeport.Addr(t),
		args: []string{"start", "stream.yaml", "--watch", "-e", "LOGS=logs/*.ndjson", "-e", "KAFKA=" + kafka.Addr, "-e", "NATS=" + nats.Addr()},
	}
	p.write()
	logs := p.appendLines(lines)
	p.start()
	defer p.kill()

	page, closePage := chromedp.NewContext(p.browser())
	defer closePage()
	if err := chromedp.Do(page, chromedp.Navigate("http://"+p.addr+"/"), chromedp.WaitReady("#total")); err != nil {
		t.Fatal(err)
	}

	random, began := rand.New(rand.NewPCG(1, 2)), time.Now()
	steps, member := reloads+kills, ""
	for left := steps; left > 0; left-- {
		p.counted(lines * (steps - left) / steps)
		if random.IntN(left) < kills {
			kills--
			member = p.joined(kafka, member)
			p.kill()
			p.start()
		} else {
			p.write()
		}
		t.Logf("%v: %d steps to go", time.Since(began).Round(time.Millisecond), left-1)
	}
	p.counted(lines)
	want, err := logs()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got the counts %v, want %v", got, want)
	}
	ctx, cancel := context.WithTimeout(page, 20*time.Second)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("document.getElementById('total').textContent === '"+strconv.Itoa(lines)+"'")); err != nil {
		total, textErr := chromedp.Run(page, chromedp.Text("#total"))
		t.Errorf("the page shows %q, want %d: %v", total, lines, errors.Join(err, textErr))
	}
	if bad, err := os.ReadFile(filepath.Join(p.dir, "bad.ndjson")); err == nil && len(bad) > 0 {
		t.Errorf("dead letters: %.500s", bad)
	}
}

// An example is the running program with its folder.
type example struct {
	t      *testing.T
	dir    string
	addr   string // of the page
	args   []string
	wrote  int // how often the document was written
	cmd    *exec.Cmd
	output syncbuffer.Buffer
}

// write writes the document, each time with another annotation, which the program reloads.
func (p *example) write() {
	p.t.Helper()
	document, err := os.ReadFile("../../examples/stream.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	p.wrote++
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	text := strings.Replace(string(document), "port: 8000", "port: "+port, 1)
	text = strings.Replace(text, "  name: page\n", "  name: page\n  annotations: {written: \""+strconv.Itoa(p.wrote)+"\"}\n", 1)
	path := filepath.Join(p.dir, "stream.yaml")
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		p.t.Fatal(err)
	}
}

// appendLines begins to append lines to files, and to rotate them. The function that it
// returns waits for the end, and returns how many lines there are of each class.
func (p *example) appendLines(n int) (classes func() (map[string]int, error)) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	counts := make(map[string]int)
	var failed error
	var writer sync.WaitGroup
	stop := make(chan struct{})
	p.t.Cleanup(func() { close(stop); writer.Wait() })
	writer.Go(func() {
		random := rand.New(rand.NewPCG(3, 4))
		for i := 0; i < n && failed == nil; {
			var b bytes.Buffer
			for end := min(n, i+n/10+1); i < end; i++ {
				status := 100*(2+random.IntN(4)) + random.IntN(30)
				counts[strconv.Itoa(status/100)+"xx"]++
				fmt.Fprintf(&b, `{"user":"u%d","status":%d,"line":%d}`+"\n", random.IntN(500), status, i)
			}
			failed = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".ndjson"), b.Bytes(), 0o600)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return func() (map[string]int, error) { writer.Wait(); return counts, failed }
}

func (p *example) start() {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(self, p.args...)
	p.cmd.Dir, p.cmd.Env = p.dir, append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.until("the page", func() bool {
		resp, err := http.Get("http://" + p.addr + "/")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// joined waits until the program is the only member of the consumer group, and not the one before,
// and returns which it is. A fake cluster never forgets a member that is killed while it waits for
// an answer about the group, as a real one does: its partitions are read no more then.
func (p *example) joined(kafka *brokers.Kafka, before string) (member string) {
	p.t.Helper()
	p.until("the consumer group", func() bool {
		g := kafka.Fake.GroupInfo("stream")
		if g == nil || g.State != "Stable" || len(g.Members) != 1 {
			return false
		}
		member = g.Members[0].MemberID
		return member != before
	})
	return member
}

// kill ends the program as kill -9 does.
func (p *example) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// counts returns what the program has counted, or nothing while it does not answer.
func (p *example) counts() map[string]int {
	resp, err := http.Get("http://" + p.addr + "/counts")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var rows []struct {
		Class string
		N     int
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&rows) != nil {
		return nil
	}
	counts := make(map[string]int)
	for _, r := range rows {
		counts[r.Class] = r.N
	}
	return counts
}

// counted waits until that many lines are counted.
func (p *example) counted(n int) {
	p.t.Helper()
	p.until(strconv.Itoa(n)+" lines", func() bool {
		sum := 0
		for _, c := range p.counts() {
			sum += c
		}
		return sum >= n
	})
}

// until waits until something is so. The test fails if nothing has changed for a long time.
func (p *example) until(what string, is func() bool) {
	p.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(2 * time.Minute); !is(); <-ticker.C {
		if time.Now().After(limit) {
			bad, err := os.ReadFile(filepath.Join(p.dir, "bad.ndjson"))
			p.t.Fatalf("waited in vain for %s, counted are %v; dead letters, %v: %.2000s; the program wrote:\n%s", what, p.counts(), err, bad, p.output.Tail(4000))
		}
	}
}

// browser starts Chromium.
func (p *example) browser() context.Context {
	ctx, cancel := chromedp.NewExecAllocator(p.t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	p.t.Cleanup(cancel)
	return ctx
}
