package streamtest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest/reference"
	"github.com/uniflow-labs/uniflow/value"
)

// A mutant is a connector with one mistake, which a row must notice.
type mutant struct {
	name    string
	row     string // with source/ or sink/
	subject func() streamtest.Subject
}

func mutants() []mutant {
	queueWith := func(wrap func(stream.Reader) stream.Reader) func() streamtest.Subject {
		return func() streamtest.Subject {
			s := reference.Queue()
			open := s.Open
			s.Open = func(init *node.Init) (stream.Reader, error) { r, err := open(init); return wrap(r), err }
			return source(s, func(s *reference.Server) int { n, _ := s.Unsettled(); return n })
		}
	}
	logWith := func(wrap func(stream.Reader) stream.Reader) func() streamtest.Subject {
		return func() streamtest.Subject {
			s := reference.Log()
			open := s.Open
			s.Open = func(init *node.Init) (stream.Reader, error) { r, err := open(init); return wrap(r), err }
			return source(s, func(s *reference.Server) int { _, n := s.Unsettled(); return n })
		}
	}
	sinkWith := func(wrap func(stream.Writer) stream.Writer) func() streamtest.Subject {
		return func() streamtest.Subject {
			s := reference.Sink()
			open := s.Open
			s.Open = func(init *node.Init) (stream.Writer, error) { w, err := open(init); return wrap(w), err }
			return sinkOf(s)
		}
	}
	return []mutant{
		{"acknowledges before the answer", "source/1_acknowledgement", queueWith(func(r stream.Reader) stream.Reader { return eager{r} })},
		{"acknowledges before the commit", "source/12_durable", queueWith(func(r stream.Reader) stream.Reader { return eager{r} })},
		{"has another id at each delivery", "source/12_durable", queueWith(func(r stream.Reader) stream.Reader { return &fickle{Reader: r} })},
		{"gives nothing back", "source/2_errors", queueWith(func(r stream.Reader) stream.Reader { return keeper{r} })},
		{"commits past a gap", "source/8_kill", logWith(func(r stream.Reader) stream.Reader { return &leaper{Reader: r, read: make(map[int32]int64)} })},
		{"reads more than there is room for", "source/4_backlog", queueWith(func(r stream.Reader) stream.Reader { return glutton{r} })},
		{"forgets the end of a connection", "source/5_restarts", logWith(func(r stream.Reader) stream.Reader { return deaf{r} })},
		{"confirms before the system does", "sink/1_acknowledgement", sinkWith(func(w stream.Writer) stream.Writer { return hasty{w} })},
		{"answers parts alike", "sink/11_parts", sinkWith(func(w stream.Writer) stream.Writer { return blind{w} })},
	}
}

// eager acknowledges what it reads.
type eager struct{ stream.Reader }

func (e eager) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	got, err := e.Reader.Read(ctx, room)
	var s stream.Settled
	for i := range got {
		s.Outcomes = append(s.Outcomes, stream.Outcome{Message: &got[i]})
	}
	if e.Settle(ctx, s) != nil {
		return nil, stream.ErrLost
	}
	return got, err
}

// fickle makes up ids.
type fickle struct {
	stream.Reader
	last atomic.Int64
}

func (f *fickle) Fields(m *stream.Message, b *value.MapBuilder) {
	f.Reader.Fields(m, b)
	b.Set("id", value.String(time.Now().String()+strconv.FormatInt(f.last.Add(1), 10)))
}

// keeper does not give messages back.
type keeper struct{ stream.Reader }

func (k keeper) Settle(ctx context.Context, s stream.Settled) error {
	var good []stream.Outcome
	for _, o := range s.Outcomes {
		if o.Err == nil {
			good = append(good, o)
		}
	}
	s.Outcomes = good
	return k.Reader.Settle(ctx, s)
}

// leaper commits all that it has read, whatever is done.
type leaper struct {
	stream.Reader
	mu   sync.Mutex
	read map[int32]int64 // the last offset of a lane
}

func (l *leaper) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	got, err := l.Reader.Read(ctx, room)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range got {
		l.read[got[i].Lane] = max(l.read[got[i].Lane], got[i].Offset)
	}
	return got, err
}

func (l *leaper) Settle(ctx context.Context, s stream.Settled) error {
	s.Marks = slices.Clone(s.Marks)
	l.mu.Lock()
	for i := range s.Marks {
		s.Marks[i].Offset = max(s.Marks[i].Offset, l.read[s.Marks[i].Lane])
	}
	l.mu.Unlock()
	return l.Reader.Settle(ctx, s)
}

func (d deaf) Settle(ctx context.Context, s stream.Settled) error {
	_ = d.Reader.Settle(ctx, s) // this is the mistake
	return nil
}

// glutton asks for more.
type glutton struct{ stream.Reader }

func (g glutton) Read(ctx context.Context, _ stream.Room) ([]stream.Message, error) {
	return g.Reader.Read(ctx, stream.Room{Messages: 4096, Bytes: 1 << 30})
}

// deaf waits on when the connection is lost.
type deaf struct{ stream.Reader }

func (d deaf) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	got, err := d.Reader.Read(ctx, room)
	if err != nil && ctx.Err() == nil {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return got, err
}

// hasty confirms what it has not sent.
type hasty struct{ stream.Writer }

func (h hasty) Write(ctx context.Context, records []stream.Record, done func(int, value.Value, error)) {
	h.Writer.Write(ctx, records, func(int, value.Value, error) {})
	for i := range records {
		done(i, value.Null(), nil)
	}
}

// blind does not look at what the system says of a record.
type blind struct{ stream.Writer }

func (b blind) Write(ctx context.Context, records []stream.Record, done func(int, value.Value, error)) {
	b.Writer.Write(ctx, records, func(i int, receipt value.Value, _ error) { done(i, receipt, nil) })
}

// mutantName is the environment variable that makes TestMutant run one.
const mutantName = "STREAMTEST_MUTANT"

// TestMutant runs the kit on a mutant. It is run by TestMutants.
func TestMutant(t *testing.T) {
	for _, m := range mutants() {
		if m.name == os.Getenv(mutantName) {
			streamtest.SetPatience(2 * time.Second)
			streamtest.Run(t, m.subject())
		}
	}
}

// TestMutants shows that the rows notice mistakes: a row must fail for its mutant.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			side, row, _ := strings.Cut(m.row, "/")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutant$/^"+side+"$/^"+row+"$", "-test.v")
			cmd.Env = append(os.Environ(), mutantName+"="+m.name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestMutant/"+m.row) {
				t.Errorf("the row %s has not noticed: %v\n%s", m.row, err, out)
			}
		})
	}
}
