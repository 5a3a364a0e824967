package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/node"
)

// An outlet is a processor that outlives the generation of its node. Without a
// spool, it belongs to nodes of the same settings; with one, to the node that has
// the folder: when its settings change, the outlet changes its processor, and
// what the old one holds goes through the folder to the new one.
type outlet struct {
	log    *slog.Logger
	change sync.Mutex // held while the processor is made, changed or closed
	users  []*shipper // open nodes, the latest last; guarded by change
	mu     struct {
		sync.Mutex
		settings  settings
		processor *batch.Processor[shipment]
		changed   chan struct{} // closed when the change that is under way is done; nil without one
		reporter  *shipper      // of the newest generation; nil logs
		grace     time.Duration
		past      [counters]float64 // of the processors before; see counted
	}
}

func newOutlet(log *slog.Logger) *outlet {
	o := &outlet{log: log}
	o.mu.grace = closing
	return o
}

// enter makes the outlet work for n, by n's settings.
func (o *outlet) enter(n *shipper) error {
	o.change.Lock()
	defer o.change.Unlock()
	if err := o.use(n.settings); err != nil {
		return err
	}
	o.users = append(o.users, n)
	return nil
}

// leave ends the work for n, which closes, and says how long Close may send. When
// n's generation has never served, the one before goes on by its own settings.
func (o *outlet) leave(n *shipper, grace time.Duration) error {
	o.change.Lock()
	defer o.change.Unlock()
	o.users = slices.DeleteFunc(o.users, func(user *shipper) bool { return user == n })
	o.depart(n, grace)
	if len(o.users) == 0 {
		return nil
	}
	return o.use(o.users[len(o.users)-1].settings)
}

func (o *outlet) depart(n *shipper, grace time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.reporter == n {
		o.mu.reporter = nil
	}
	o.mu.grace = grace
}

// use makes the outlet work by s; the caller holds change. After an error it goes
// on as before.
func (o *outlet) use(s settings) error {
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
	defer o.begin()()
	if err := o.end(p, s.spool, handOver); err != nil {
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

// handOver is how long a processor whose settings have changed goes on sending
// before what is left goes to the next by way of the spool.
const handOver = time.Second

func (o *outlet) now() (settings, *batch.Processor[shipment]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.settings, o.mu.processor
}

func (o *outlet) set(s settings, p *batch.Processor[shipment]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.settings, o.mu.processor = s, p
}

// begin has producers wait for the next processor, until done is called.
func (o *outlet) begin() (done func()) {
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

func (o *outlet) open(s settings) (*batch.Processor[shipment], error) {
	send, err := s.sender()
	if err != nil {
		return nil, err
	}
	c := batch.Options[shipment]{
		Encode:  encode,
		Send:    send,
		Trigger: batch.Trigger{Count: s.count, Bytes: s.bytes, Linger: s.linger},
		Queue:   batch.Queue{Full: s.full},
		Lanes:   batch.Lanes[shipment]{Max: s.lanes, Order: s.order, Key: keyOf},
		Retry:   batch.Retry{Attempts: s.attempts},
		OnDrop:  o.dropped,
		Log:     o.log,
	}
	if s.spool != "" {
		c.Spool = &batch.Spool{Dir: s.spool, WriteAhead: true}
	}
	return batch.New(c)
}

// with calls add with the processor, and again with its successor when that one
// was closed for it. A ctx that has ended waits for no successor.
func (o *outlet) with(ctx context.Context, add func(*batch.Processor[shipment]) error) error {
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

// changing returns what is closed when p, which is closed, has a successor; nil
// when it will have none.
func (o *outlet) changing(p *batch.Processor[shipment]) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.processor != p {
		done := make(chan struct{})
		close(done)
		return done
	}
	return o.mu.changed
}

// add adds an event. Where the policy is to wait, it waits until ctx ends.
func (o *outlet) add(ctx context.Context, s *settings, e *shipment) error {
	return o.with(ctx, func(p *batch.Processor[shipment]) error {
		if s.full == batch.PolicyDefault {
			return p.AddWait(ctx, e)
		}
		return p.Add(e)
	})
}

// addAck adds an event as add does. What DropNewest would drop is not accepted.
func (o *outlet) addAck(ctx context.Context, s *settings, e *shipment) (t batch.Ticket, err error) {
	impatient := s.full == batch.PolicyReject || s.full == batch.PolicyDropNewest
	err = o.with(ctx, func(p *batch.Processor[shipment]) error {
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

// dropped is the processor's OnDrop. Who waits for an event's delivery learns of
// it by the ticket.
func (o *outlet) dropped(d batch.Dropped) {
	n := o.reporter()
	for _, text := range d.Events {
		if n == nil || n.settings.delivered {
			o.log.Error("event is dropped", "reason", d.Reason.String(), "event", clip(text), "error", d.Err)
			continue
		}
		n.report(d, text)
	}
}

// maxQuote is how many bytes of an event a log record has. An event may have 1 MiB.
const maxQuote = 200

// clip returns an event, or its beginning if it is longer than maxQuote.
func clip(text []byte) string {
	if len(text) <= maxQuote {
		return string(text)
	}
	end := maxQuote
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "…"
}

func (o *outlet) reporter() *shipper {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.reporter
}

func (o *outlet) reportTo(n *shipper) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.reporter = n
}

// Close sends what is left for as long as the grace lasts. No node uses the
// outlet any more.
func (o *outlet) Close() error {
	o.change.Lock()
	defer o.change.Unlock()
	s, p := o.now()
	if p == nil {
		return nil
	}
	return o.end(p, s.spool, o.lasting())
}

func (o *outlet) lasting() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.grace
}

// end closes a processor. Events that are lost by that are logged in full.
func (o *outlet) end(p *batch.Processor[shipment], spool string, grace time.Duration) error {
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

// counted are those metrics, without what processors before have counted.
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

// remember adds to what the next processor counts what one that has ended did.
func (o *outlet) remember(s batch.Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, m := range counted(s) {
		o.mu.past[i] += m.Value
	}
}

// measure reports the metrics of the processor. While it is being changed there
// are none.
func (o *outlet) measure(report func(node.Metric)) {
	o.mu.Lock()
	p, changing, past := o.mu.processor, o.mu.changed != nil, o.mu.past
	o.mu.Unlock()
	if p == nil || changing {
		return
	}
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
