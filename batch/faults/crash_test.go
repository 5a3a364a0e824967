package faults

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// Environment variables of a crash child.
const (
	crashDir   = "BATCH_FAULTS_DIR"
	crashAddr  = "BATCH_FAULTS_ADDR"
	crashFirst = "BATCH_FAULTS_FIRST"
)

const (
	crashKeys   = 4
	crashEvents = 4000 // of one child
	crashRound  = 1_000_000
)

// crashConfig returns the options of each run of the processor.
func crashConfig(send batch.SendFunc, dir string) config {
	return config{
		Encode:   oracle.Encode,
		Send:     send,
		Producer: "crash",
		Trigger:  batch.Trigger{Count: 100, Linger: time.Millisecond},
		Lanes:    batch.Lanes[event]{Order: batch.OrderPerKey, Max: crashKeys, Key: func(e *event) uint64 { return e.Key }},
		Retry:    batch.Retry{Initial: time.Millisecond, Max: 20 * time.Millisecond},
		Spool:    &batch.Spool{Dir: dir, WriteAhead: true, SyncEvery: time.Millisecond, SegmentBytes: 256 << 10},
	}
}

// crashChild adds events and prints the number of each durable one, until it is killed. A
// line that begins with ! makes the test fail.
func crashChild() int {
	first, err := strconv.ParseUint(os.Getenv(crashFirst), 10, 64)
	if err != nil {
		fmt.Println("!", err)
		return 1
	}
	send, err := batch.NewHTTP("http://"+os.Getenv(crashAddr)+"/batch", batch.HTTPOptions{})
	if err != nil {
		fmt.Println("!", err)
		return 1
	}
	p, err := batch.New(crashConfig(send, os.Getenv(crashDir)))
	if err != nil {
		fmt.Println("! New:", err)
		return 1
	}
	fmt.Println("ready")
	type pending struct {
		id     uint64
		ticket batch.Ticket
	}
	ctx := context.Background()
	var work sync.WaitGroup
	for key := range uint64(crashKeys) {
		tickets := make(chan pending, 100)
		work.Go(func() {
			defer close(tickets)
			for id := first + key; id < first+crashEvents; id += crashKeys {
				ticket, err := p.AddAck(ctx, &event{ID: id, Key: key, Seq: id, Pad: 100})
				if err != nil {
					fmt.Println("! AddAck:", err)
					return
				}
				tickets <- pending{id, ticket}
			}
		})
		work.Go(func() {
			for x := range tickets {
				if err := x.ticket.Wait(ctx, batch.StateDurable); err != nil {
					fmt.Println("! Wait:", err)
				}
				fmt.Println(x.id)
			}
		})
	}
	tick := time.NewTicker(5 * time.Millisecond)
	for range tick.C { // until killed
		if err := p.Stats().Balance(); err != nil {
			fmt.Println("!", err)
		}
	}
	return 0
}

// TestFault06_Kill: a process is killed at random times, many times, on the same spool.
// The events that it reported as durable arrive in order.
func TestFault06_Kill(t *testing.T) {
	rnd := random(t)
	dir := t.TempDir()
	store := oracle.NewStore(oracle.Rules{})
	server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
		switch rnd.IntN(10) {
		case 0:
			return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny}
		case 1:
			return oracle.Act{At: oracle.AfterTake, Do: oracle.Reset}
		}
		return oracle.Act{Delay: 2 * time.Millisecond}
	})
	acked := make(map[uint64]bool)
	recovered := 0
	random := random(t)
	for round := range scale(25, 200) {
		child := crashRoundChild{
			dir: dir, addr: server.Addr, first: uint64(round)*crashRound + 1,
			life:  time.Duration(random.IntN(150)) * time.Millisecond,
			early: random.IntN(5) == 0, // during recovery, perhaps
		}
		ids := child.run(t)
		for _, id := range ids {
			acked[id] = true
		}
		if len(ids) > 0 {
			recovered++
		}
	}
	if recovered == 0 {
		t.Fatal("no child lived long enough to add an event")
	}
	p, err := batch.New(crashConfig(viaHTTP(t, server.Addr, batch.HTTPOptions{}), dir))
	if err != nil {
		t.Fatalf("New after the last kill: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Stats().Balance(); err != nil {
		t.Error(err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatalf("Flush: %v; %+v", err, p.Stats())
	}
	report, err := p.Close(ctx)
	if err != nil || report.Undelivered > 0 || report.Spooled > 0 {
		t.Errorf("Close: got %+v, %v, want everything delivered", report, err)
	}
	s := p.Stats()
	if err := s.Balance(); err != nil {
		t.Error(err)
	}
	if s.LostOnDisk > 0 {
		t.Errorf("got %d events lost on disk", s.LostOnDisk)
	}
	copies := store.Copies()
	lost := 0
	for id := range acked {
		if copies[id] == 0 {
			if lost++; lost <= 5 {
				t.Errorf("event %d was durable, and never arrived", id)
			}
		}
	}
	twice := 0
	for id, n := range copies {
		if n > 1 {
			if twice++; twice <= 5 {
				t.Errorf("event %d was taken %d times, each time in a batch the receiver did not know", id, n)
			}
		}
	}
	t.Logf("%d events durable, %d taken, %d lost, %d taken twice, %d batches came again", len(acked), len(copies), lost, twice, store.Duplicates())
	oracle.Check(t, store, ledgerOf(copies), oracle.Promise{Order: true})
}

// ledgerOf returns a ledger for events of another process.
func ledgerOf(copies map[uint64]uint32) *oracle.Ledger {
	var l oracle.Ledger
	for id := range copies {
		l.Know(event{ID: id})
	}
	return &l
}

// crashRoundChild is one run of a child.
type crashRoundChild struct {
	dir, addr string
	first     uint64
	life      time.Duration
	early     bool // life is counted from the start, not from when it is ready
}

// run starts the child, kills it, and returns the events that it reported as durable.
func (c crashRoundChild) run(t *testing.T) (durable []uint64) {
	t.Helper()
	cmd, out, err := startChild(t, "crash", nil, crashDir+"="+c.dir, crashAddr+"="+c.addr, crashFirst+"="+fmt.Sprint(c.first))
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return // an incomplete line does not count
			}
			line = strings.TrimSuffix(line, "\n")
			if line == "ready" {
				close(ready)
				continue
			}
			id, err := strconv.ParseUint(line, 10, 64)
			if err != nil {
				t.Errorf("child: %s", line)
				continue
			}
			durable = append(durable, id)
		}
	})
	if !c.early {
		patient := time.NewTimer(patience)
		defer patient.Stop()
		select {
		case <-ready:
		case <-patient.C:
			t.Errorf("the child was not ready in %v", patience)
		}
	}
	life := time.NewTimer(c.life)
	defer life.Stop()
	<-life.C
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	reader.Wait()
	_ = cmd.Wait() // the error is that the child was killed
	return durable
}
