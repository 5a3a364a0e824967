package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// A sharedProcessor is a processor that outlives the generation of its node. Without
// a spool, nodes of the same settings share it. With a spool, it belongs to the node
// that has the folder. When the settings of that node change, a new processor takes
// the place of the old one, and finds in the folder what the old one has not sent.
type sharedProcessor struct {
	log    *slog.Logger
	held   *node.Account                // bytes of events that wait, as of the last call of count
	added  atomic.Int64                 // bytes of all events that were added, approximately
	events atomic.Int64                 // how many these are
	change sync.Mutex                   // held while the processor is made, changed or closed
	nodes  state.Generations[batchNode] // that are open; guarded by change
	mu     struct {
		sync.Mutex
		settings  settings
		processor *batch.Processor[batchEvent]
		changed   chan struct{} // closed when the change that is under way is done; nil without one
		reporter  *batchNode    // of the newest generation; nil logs
		grace     time.Duration
		past      [counters]float64 // of earlier processors; see counted
	}
	counting struct {
		sync.Mutex
		bytes int64        // in held
		added atomic.Int64 // as of then
	}
}

func newSharedProcessor(log *slog.Logger, held *node.Account) *sharedProcessor {
	o := &sharedProcessor{log: log, held: held}
	o.mu.grace = closeTimeout
	return o
}

// enter adds a node, and applies its settings.
func (o *sharedProcessor) enter(n *batchNode) error {
	o.change.Lock()
	defer o.change.Unlock()
	if err := o.use(n.settings); err != nil {
		return err
	}
	o.nodes.Attach(n)
	return nil
}

// leave removes a node that closes; grace is how long Close may send. If the
// generation of n has never served, the generation before it continues with its own
// settings.
func (o *sharedProcessor) leave(n *batchNode, grace time.Duration) error {
	o.change.Lock()
	defer o.change.Unlock()
	last := o.nodes.Detach(n)
	o.mu.Lock()
	if o.mu.reporter == n {
		o.mu.reporter = nil
	}
	o.mu.grace = grace
	o.mu.Unlock()
	if last {
		return nil
	}
	return o.use(o.nodes.Current().settings)
}

// use applies settings; the caller holds change. After an error the settings before
// stay in use.
func (o *sharedProcessor) use(s settings) error {
	old, p := o.now()
	switch {
	case p == nil:
		p, err := o.open(s)
		if err != nil {
			return err
		}
		o.set(s, p)
		return nil
	case old == s:
		return nil
	case old.node != s.node:
		return fmt.Errorf("spool %s is in use by node %s; give each its own folder", s.spool, old.node)
	}
	defer o.beginChange()()
	if err := o.closeProcessor(p, s.spool, handOverTimeout); err != nil {
		o.log.Error("closing the processor of the settings before", "error", err)
	}
	p, err := o.open(s)
	if err == nil {
		o.set(s, p)
		return nil
	}
	p, again := o.open(old)
	if again != nil {
		o.set(settings{}, nil) // the next one makes it
		return errors.Join(err, fmt.Errorf("and the settings before do not work any more: %w", again))
	}
	o.set(old, p)
	return err
}

// handOverTimeout is how long a processor sends after its settings have changed. The
// next one finds the rest in the spool.
const handOverTimeout = time.Second

func (o *sharedProcessor) now() (settings, *batch.Processor[batchEvent]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.settings, o.mu.processor
}

func (o *sharedProcessor) set(s settings, p *batch.Processor[batchEvent]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.settings, o.mu.processor = s, p
}

// beginChange makes producers wait until done is called, when there is another
// processor.
func (o *sharedProcessor) beginChange() (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := make(chan struct{})
	o.mu.changed = changed
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.mu.changed = nil
		close(changed)
	}
}

func (o *sharedProcessor) open(s settings) (*batch.Processor[batchEvent], error) {
	send, err := s.sender()
	if err != nil {
		return nil, err
	}
	c := batch.Options[batchEvent]{
		Encode: encode,
		Send: func(ctx context.Context, b *batch.Batch) batch.Outcome {
			defer o.count()
			return send(ctx, b)
		},
		Trigger: batch.Trigger{Count: s.count, Bytes: s.bytes, Linger: s.linger},
		Queue:   batch.Queue{Full: s.full},
		Lanes:   batch.Lanes[batchEvent]{Max: s.lanes, Order: s.order, Key: func(e *batchEvent) uint64 { return e.key }},
		Retry:   batch.Retry{Attempts: s.attempts},
		OnDrop:  o.dropped,
		Log:     o.log,
	}
	if s.spool != "" {
		c.Spool = &batch.Spool{Dir: s.spool, WriteAhead: true}
	}
	return batch.New(c)
}

// with calls add with the processor. If the processor was closed because its settings
// changed, it calls add again with the next one. It waits for that until ctx ends.
func (o *sharedProcessor) with(ctx context.Context, add func(*batch.Processor[batchEvent]) error) error {
	for {
		_, p := o.now()
		if p == nil {
			return batch.ErrClosed
		}
		err := add(p)
		if !errors.Is(err, batch.ErrClosed) {
			return err
		}
		changed := o.changing(p)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changing returns a channel that is closed when another processor has taken the
// place of p, which is closed. It returns nil if there will be no other.
func (o *sharedProcessor) changing(p *batch.Processor[batchEvent]) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.processor != p {
		done := make(chan struct{})
		close(done)
		return done
	}
	return o.mu.changed
}

// countStep is how many bytes of events are added before they are counted.
const countStep = 64 << 10

// admit reports whether there is memory for another event. If none waits, there is for one.
func (o *sharedProcessor) admit(e *batchEvent) bool {
	if o.held.Full() {
		if o.count(); o.held.Full() && o.held.Held() > 0 {
			return false
		}
	}
	o.events.Add(1)
	if o.added.Add(int64(e.payload.Size()))-o.counting.added.Load() >= countStep {
		o.count()
	}
	return true
}

// count brings the account up to date. It is called as events are added and sent: what the
// last batches have had is counted until the next call.
func (o *sharedProcessor) count() {
	_, p := o.now()
	if p == nil {
		return
	}
	o.counting.Lock()
	defer o.counting.Unlock()
	added, s := o.added.Load(), p.Stats()
	o.counting.added.Store(added)
	flying := int64(float64(s.InFlight) * float64(added) / float64(max(1, o.events.Load()))) // by their mean
	more := s.QueuedBytes + flying - o.counting.bytes
	if o.counting.bytes += more; more > 0 {
		o.held.Hold(more)
	} else {
		o.held.Free(-more)
	}
}

// add adds an event. If the policy is to wait, it waits until ctx ends.
func (o *sharedProcessor) add(ctx context.Context, s *settings, e *batchEvent) error {
	if !o.admit(e) {
		return batch.ErrFull
	}
	return o.with(ctx, func(p *batch.Processor[batchEvent]) error {
		if s.full == batch.PolicyDefault {
			return p.AddWait(ctx, e)
		}
		return p.Add(e)
	})
}

// addAck adds an event as add does. It refuses an event that DropNewest would drop.
func (o *sharedProcessor) addAck(ctx context.Context, s *settings, e *batchEvent) (t batch.Ticket, err error) {
	if !o.admit(e) {
		return t, batch.ErrFull
	}
	impatient := s.full == batch.PolicyReject || s.full == batch.PolicyDropNewest
	err = o.with(ctx, func(p *batch.Processor[batchEvent]) error {
		if !impatient {
			t, err = p.AddAck(ctx, e)
			return err
		}
		if t, err = p.AddAck(expired, e); errors.Is(err, context.Canceled) {
			return batch.ErrFull
		}
		return err
	})
	return t, err
}

// dropped is the processor's OnDrop. A node that waits for the delivery of an event
// learns of it from the ticket.
func (o *sharedProcessor) dropped(d batch.Dropped) {
	o.mu.Lock()
	n := o.mu.reporter
	o.mu.Unlock()
	for _, text := range d.Events {
		if n == nil || n.settings.delivered {
			o.log.Error("event is dropped", "reason", d.Reason.String(), "event", node.Clip(string(text), maxQuote), "error", d.Err)
			continue
		}
		n.report(d, text)
	}
}

// maxQuote is how many bytes of an event a log record has. An event may have 1 MiB.
const maxQuote = 200

func (o *sharedProcessor) reportTo(n *batchNode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.reporter = n
}

// Close sends what is left, for as long as the grace lasts. It is called when no node
// uses the processor any more.
func (o *sharedProcessor) Close() error {
	o.change.Lock()
	defer o.change.Unlock()
	o.mu.Lock()
	s, p, grace := o.mu.settings, o.mu.processor, o.mu.grace
	o.mu.Unlock()
	defer o.held.Close()
	if p == nil {
		return nil
	}
	return o.closeProcessor(p, s.spool, grace)
}

// closeProcessor closes a processor. Events that are lost by that are logged in full.
func (o *sharedProcessor) closeProcessor(p *batch.Processor[batchEvent], spool string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	report, err := p.Close(ctx)
	o.remember(p.Stats())
	for text := range report.Events() {
		o.log.Error("event is lost", "event", string(text))
	}
	if report.Spooled > 0 {
		o.log.Info("events are left in the spool", "events", report.Spooled, "spool", spool)
	}
	return err
}

// counters is the number of metrics that only grow.
const counters = 8

// counted returns those metrics of one processor.
func counted(s batch.Stats) [counters]node.Metric {
	dropped := func(reason batch.Reason, n uint64) node.Metric {
		return node.Metric{
			Name: "batch_dropped_events_total", Help: "Events that were accepted and given up, by reason.",
			Labels: []node.Label{{Name: "reason", Value: reason.String()}}, Value: float64(n),
		}
	}
	return [counters]node.Metric{
		{Name: "batch_accepted_events_total", Help: "Events that were accepted.", Value: float64(s.Accepted)},
		{Name: "batch_delivered_events_total", Help: "Events that the receiver took.", Value: float64(s.Delivered)},
		{Name: "batch_retries_total", Help: "Events that were sent again, once for each time.", Value: float64(s.Retried)},
		{Name: "batch_requests_total", Help: "Attempts to send a batch or a piece of one.", Value: float64(s.Requests)},
		dropped(batch.ReasonQueueFull, s.DroppedFull),
		dropped(batch.ReasonExhausted, s.DroppedExhausted),
		dropped(batch.ReasonRefused, s.Refused),
		dropped(batch.ReasonUnreadable, s.Unreadable),
	}
}

// remember keeps the counts of a processor that has ended. measure adds them to the
// counts of the next one.
func (o *sharedProcessor) remember(s batch.Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, m := range counted(s) {
		o.mu.past[i] += m.Value
	}
}

// measure reports the metrics of the processor; none while the processor is being
// changed.
func (o *sharedProcessor) measure(report func(node.Metric)) {
	o.mu.Lock()
	p, changing, past := o.mu.processor, o.mu.changed != nil, o.mu.past
	o.mu.Unlock()
	if p == nil || changing {
		return
	}
	o.count()
	s := p.Stats()
	for _, m := range []node.Metric{
		{Name: "batch_queued_events", Help: "Events that wait in memory.", Value: float64(s.Queued)},
		{Name: "batch_spooled_events", Help: "Events that wait on disk only.", Value: float64(s.Spooled)},
		{Name: "batch_in_flight_events", Help: "Events of batches that are being sent or wait for their next attempt.", Value: float64(s.InFlight)},
		{Name: "batch_queued_bytes", Help: "Memory that waiting events take.", Value: float64(s.QueuedBytes)},
		{Name: "batch_spool_bytes", Help: "Size of the files of the spool.", Value: float64(s.SpoolBytes)},
		{Name: "batch_oldest_age_seconds", Help: "Age of the event that has waited longest to be delivered or given up; 0 without one.", Value: s.OldestAge.Seconds()},
		{Name: "batch_retrying_batches", Help: "Batches that wait for their next attempt.", Value: float64(s.Retrying)},
		{Name: "batch_paused_lanes", Help: "Lanes that wait for the receiver to allow us, or to be another.", Value: float64(s.LanesPaused)},
	} {
		report(m)
	}
	for i, m := range counted(s) {
		m.Type, m.Value = node.MetricCounter, m.Value+past[i]
		report(m)
	}
}
