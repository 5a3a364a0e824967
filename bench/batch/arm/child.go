package arm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A Job is what a child measures.
type Job string

const (
	// Deliver offers rate events a second and counts what arrives.
	Deliver Job = "deliver"
	// Memory is a short Deliver with every allocation recorded.
	Memory Job = "memory"
	// Saturate offers as fast as events are accepted.
	Saturate Job = "saturate"
)

// A Task is what a child is told to do.
type Task struct {
	Job       Job
	Design    string
	Server    string // http://host:port of the receiver
	Run       string // begun there
	Rate      int
	Length    time.Duration
	Producers int // of Saturate
	Options   Options
}

// A Result is what a child found. After Saturate it has no counts of the
// receiver, after Memory only the share of copies.
type Result struct {
	Name      string           `json:"name"`
	Load      Load             `json:"load"`
	Offered   int64            `json:"offered"`
	Accepted  int64            `json:"accepted"`
	Dropped   int64            `json:"dropped"`
	DroppedBy map[string]int64 `json:"dropped_by,omitempty"`

	// What was accepted and what had arrived when the time was up, and all that
	// had arrived after Close.
	AcceptedBeforeStop  int64 `json:"accepted_before_stop"`
	DeliveredBeforeStop int64 `json:"delivered_before_stop"`
	Delivered           int64 `json:"delivered"`

	Duplicates int64   `json:"duplicates"`
	Foreign    int64   `json:"foreign,omitempty"`
	Malformed  int64   `json:"malformed,omitempty"`
	Requests   int64   `json:"requests"`
	MeanBatch  float64 `json:"mean_batch"`

	// Ages of events when their batch was answered.
	AgeP50 float64 `json:"age_p50_ms"`
	AgeP99 float64 `json:"age_p99_ms"`

	CPU            float64 `json:"cpu_s"`
	BytesPerEvent  float64 `json:"alloc_bytes_per_event"`
	AllocsPerEvent float64 `json:"allocs_per_event"`
	Goroutines     int64   `json:"goroutines"`

	// CopyShare is from 0 to 1, of CopyOf bytes; nil where it was not measured.
	CopyShare *float64 `json:"copy_share"`
	CopyOf    int64    `json:"copy_of_bytes,omitempty"`

	// Locks is the share of the process's CPU that selects, channel operations
	// and waiting for mutexes take.
	Locks   float64 `json:"locks"`
	Samples int64   `json:"profile_samples"` // of 10 ms

	// Stall is the longest time by which the load woke up late, because of the
	// machine and not of the arm.
	Stall float64 `json:"stall_ms"`

	Elapsed   float64 `json:"elapsed_s"` // until Close had returned
	CloseTime float64 `json:"close_s"`
	PerSecond float64 `json:"events_per_s"` // accepted, in that time
	CloseErr  string  `json:"close_error,omitempty"`
}

// closeLimit is how long a subject may take to deliver what is waiting.
const closeLimit = 30 * time.Second

// Child measures one arm, as the whole of a process, and writes its Result as
// JSON. It returns the exit code.
func Child(ctx context.Context, args []string, designs []Design, stdout, stderr io.Writer) int {
	task, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "arm:", err)
		return 2
	}
	d, ok := Find(designs, task.Design)
	if !ok {
		fmt.Fprintf(stderr, "arm: there is no design %q\n", task.Design)
		return 2
	}
	r, err := measure(ctx, &d, task)
	if err == nil {
		err = json.NewEncoder(stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(stderr, "arm: %s: %v\n", d.Name, err)
		return 3
	}
	return 0
}

// Args returns the arguments that have Child do the task.
func (t *Task) Args() []string {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // it has nothing but texts and numbers
	}
	return []string{string(data)}
}

func parse(args []string) (t *Task, err error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments instead of a task as JSON", len(args))
	}
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return nil, err
	}
	if t.Job != Deliver && t.Job != Memory && t.Job != Saturate || t.Rate < 1 || t.Length <= 0 || t.Producers < 1 {
		return nil, fmt.Errorf("%+v is not a task", *t)
	}
	return t, nil
}

func measure(ctx context.Context, d *Design, task *Task) (*Result, error) {
	if task.Job == Memory {
		runtime.MemProfileRate = 1
	}
	client := NewClient(task.Server, task.Run)
	task.Options.URL, task.Options.Endpoint = client.URL(), client.Endpoint()
	r := &Result{Name: d.Name, Load: d.Load}
	if task.Job == Saturate {
		r.Load = "saturated"
	}

	var before, after runtime.MemStats
	var cpu bytes.Buffer
	if task.Job != Memory {
		if err := pprof.StartCPUProfile(&cpu); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile() // in case of an error; a second time does nothing
	}
	goroutines := watchGoroutines()
	runtime.GC()
	runtime.ReadMemStats(&before)
	busy, start := program.CPUTime(), time.Now()

	var t outcome
	closed, err := drive(ctx, d, task, client, &t, r)
	if err != nil {
		goroutines()
		return nil, err
	}
	r.Elapsed = time.Since(start).Seconds()
	r.CloseTime = closed.Seconds()
	r.CPU = (program.CPUTime() - busy).Seconds()
	runtime.ReadMemStats(&after)
	r.Goroutines = goroutines()
	pprof.StopCPUProfile()

	r.Accepted = t.accepted.Load()
	r.Offered = t.offered
	r.Stall = t.stall.Seconds() * 1000
	r.PerSecond = float64(r.Accepted) / r.Elapsed
	events := float64(max(r.Accepted, 1))
	r.BytesPerEvent = float64(after.TotalAlloc-before.TotalAlloc) / events
	r.AllocsPerEvent = float64(after.Mallocs-before.Mallocs) / events

	if task.Job == Memory {
		return r, r.memory(d)
	}
	p, err := profile.Parse(&cpu)
	if err != nil {
		return nil, err
	}
	r.Locks, r.Samples = lockShare(p)
	counts, err := client.Counts(ctx)
	if err != nil {
		return nil, err
	}
	r.counted(counts)
	r.drops(d, &t, task.Job)
	return r, nil
}

// drive makes the subject, offers it what the task says, and closes it. It
// returns how long closing took.
func drive(ctx context.Context, d *Design, task *Task, client *Client, t *outcome, r *Result) (closed time.Duration, err error) {
	s, err := d.Make(task.Options)
	if err != nil {
		return 0, err
	}
	if task.Job == Saturate {
		saturate(ctx, s, task.Producers, task.Length, t)
	} else if err := deliver(ctx, s, d, task, client, t, r); err != nil {
		return 0, err
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		r.CloseErr = err.Error() // not a failure of the measurement
	}
	if late, ok := s.(Dropper); ok {
		for reason, n := range late.Dropped() {
			t.dropped[reason] += n
		}
	}
	return time.Since(start), nil
}

// deliver offers on schedule, and looks at the account when the time is up,
// whether or not everything could be offered by then.
func deliver(ctx context.Context, s Subject, d *Design, task *Task, client *Client, t *outcome, r *Result) error {
	start := time.Now()
	line := time.NewTimer(task.Length)
	defer line.Stop()
	var stop sync.WaitGroup
	var counts Counts
	var countErr error
	stop.Go(func() {
		select {
		case <-ctx.Done():
			countErr = context.Cause(ctx)
		case <-line.C:
			r.AcceptedBeforeStop = t.accepted.Load()
			counts, countErr = client.Counts(ctx)
		}
	})
	plan := schedule{task.Rate, int(int64(task.Rate) * int64(task.Length) / int64(time.Second))}
	err := offer(ctx, s, d.Load, plan, start, t)
	stop.Wait()
	r.DeliveredBeforeStop = counts.Distinct
	return errors.Join(err, countErr)
}

func (r *Result) counted(c Counts) {
	r.Delivered, r.Duplicates, r.Foreign, r.Malformed, r.Requests = c.Distinct, c.Duplicates, c.Foreign, c.Malformed, c.Requests
	if c.Requests > 0 {
		r.MeanBatch = float64(c.Events) / float64(c.Requests)
	}
	r.AgeP50, r.AgeP99 = c.AgeP50, c.AgeP99
}

// drops enters what was dropped, and why.
func (r *Result) drops(d *Design, t *outcome, job Job) {
	r.DroppedBy = t.dropped
	for _, n := range t.dropped {
		r.Dropped += n
	}
	if lost := r.Offered - r.Dropped - r.Delivered; !d.Tells && job == Deliver && lost > 0 {
		r.DroppedBy[Silent] = lost
		r.Dropped += lost
	}
}

func (r *Result) memory(d *Design) error {
	if d.Copies == nil {
		return nil
	}
	runtime.GC() // a heap profile is of the time before the last collection
	runtime.GC()
	var heap bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&heap, 0); err != nil {
		return err
	}
	p, err := profile.Parse(&heap)
	if err != nil {
		return err
	}
	share, all := copyShare(p, d)
	if all == 0 {
		return fmt.Errorf("nothing was allocated under %v: are these still its functions?", d.Under)
	}
	r.CopyShare, r.CopyOf = &share, all
	return nil
}

// watchGoroutines counts goroutines every 10 ms until stop is called, which
// returns the largest number.
func watchGoroutines() (stop func() int64) {
	var peak int64
	var done sync.WaitGroup
	stopped := make(chan struct{})
	done.Go(func() {
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for {
			peak = max(peak, int64(runtime.NumGoroutine())-1) // without this one
			select {
			case <-stopped:
				return
			case <-every.C:
			}
		}
	})
	return func() int64 {
		close(stopped)
		done.Wait()
		return peak
	}
}

// contended are prefixes of the functions that the share of locks counts, with
// all they call: selects and channel operations, blocked or not, and the slow
// paths of mutexes.
var contended = []string{
	"runtime.selectgo", "runtime.selectnbsend", "runtime.selectnbrecv", "runtime.chansend", "runtime.chanrecv",
	"sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow",
	"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow",
	"sync.(*RWMutex).Lock", "sync.(*Cond).Wait",
	"sync.runtime_Semacquire", "sync.runtime_notifyList", "internal/sync.runtime_Semacquire", "internal/sync.runtime_Semrelease",
	"github.com/uniflow-labs/uniflow/lock.(*Mutex).",
}

// lockShare returns the share of contended functions in a CPU profile, and the
// number of its samples.
func lockShare(p *profile.Profile) (share float64, samples int64) {
	for _, s := range p.Sample {
		samples += s.Value[0]
	}
	share, _ = program.ProfileShare(p, len(p.SampleType)-1, nil, contended)
	return share, samples
}

// copyShare returns the share of copies in the bytes that a design's functions
// have allocated, and how many bytes these are.
func copyShare(p *profile.Profile, d *Design) (share float64, all int64) {
	space := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_space" })
	return program.ProfileShare(p, space, d.Under, d.Copies)
}
