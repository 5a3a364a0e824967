package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// figures are all that was found, as batch.json has them.
type figures struct {
	Machine    program.Facts   `json:"machine"`
	Seconds    float64         `json:"seconds"`
	Rate       int             `json:"rate"`
	Notes      []string        `json:"notes,omitempty"`
	Failed     []string        `json:"failed,omitempty"` // what could not be measured; Notes have the reason
	Arms       []arm.Result    `json:"arms"`
	Saturation []arm.Result    `json:"saturation"`
	Ingest     []cost          `json:"ingest"`
	Targets    program.Targets `json:"targets"`
}

func (f *figures) ns(design, event string, producers int) float64 {
	for _, c := range f.Ingest {
		if c.Design == design && c.Event == event && c.Producers == producers {
			return c.NS
		}
	}
	return 0
}

const (
	ageSlack    = 20 * time.Millisecond // in addition to linger and latency
	structLimit = 60.0                  // nanoseconds, with two producers
	jsonLimit   = 250.0
	cheaper     = 5.0  // times, than the channel
	locksLimit  = 0.02 // of the process's CPU
)

// judge sets the targets: of all of our arms that were measured.
func (f *figures) judge() {
	t := &f.Targets
	for _, name := range f.Failed {
		if isOurs(name) || name == partIngest {
			t.Must(false, name+": measured", "yes", "no")
		}
	}
	for i := range f.Arms {
		a := &f.Arms[i]
		if !isOurs(a.Name) {
			continue
		}
		t.Must(a.Delivered == a.Offered, a.Name+": delivered after Close", show.Thousands(a.Offered), show.Thousands(a.Delivered))
		t.Must(a.Dropped == 0 && a.CloseErr == "", a.Name+": dropped", "0", show.Thousands(a.Dropped)+said(a.CloseErr))
		t.Must(a.Foreign == 0 && a.Malformed == 0, a.Name+": events that were not offered, bodies that are not JSON", "0", show.Thousands(a.Foreign+a.Malformed))
		bound := (interval + latency + ageSlack).Seconds() * 1000
		t.Add(a.AgeP99 <= bound, a.Name+": event age when answered, p99", fmt.Sprintf("≤ %.0f ms", bound), fmt.Sprintf("%.1f ms", a.AgeP99))
		if a.CopyShare != nil {
			t.Add(*a.CopyShare == 0, a.Name+": copies, share of memory", "0 %", percent(*a.CopyShare))
		}
	}
	for i := range f.Saturation {
		if a := &f.Saturation[i]; isOurs(a.Name) {
			t.Add(a.Locks < locksLimit, a.Name+": locks and selects, share of CPU at saturation", "< "+percent(locksLimit), percent(a.Locks))
		}
	}
	for _, b := range []struct {
		event string
		limit float64
	}{{"struct", structLimit}, {"json150", jsonLimit}} {
		if mine := f.ns(nameOurs, b.event, 2); mine > 0 {
			t.Add(mine <= b.limit, "Add, "+b.event+", 2 producers", fmt.Sprintf("≤ %.0f ns", b.limit), fmt.Sprintf("%.1f ns", mine))
		}
	}
	// With JSON, most of the time is encoding, which all designs do.
	for _, name := range []string{nameChannel, nameUnbuffered} {
		if mine, channel := f.ns(nameOurs, "struct", 2), f.ns(name, "struct", 2); mine > 0 && channel > 0 {
			t.Add(channel/mine >= cheaper, "Add, struct, 2 producers: "+name+" ÷ ours", fmt.Sprintf("≥ %.0f x", cheaper), fmt.Sprintf("%.1f x", channel/mine))
		}
	}
}

func said(err string) string {
	if err == "" {
		return ""
	}
	return " (" + err + ")"
}

func (f *figures) print(w io.Writer) error {
	for _, part := range []func(io.Writer) error{f.printArms, f.printSaturation, f.printIngest, f.Targets.Print} {
		if err := part(w); err != nil {
			return err
		}
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", n)
	}
	return nil
}

// disturbed is the stall, in milliseconds, that makes the figures of an arm say
// something about the machine.
const disturbed = float64(ageSlack / time.Millisecond)

func (f *figures) printArms(w io.Writer) error {
	var t program.Table
	t.Row("arm", "load", "offered", "accepted", "dropped", "before stop", "after Close", "dup.", "requests", "mean batch",
		"age p50 ms", "age p99 ms", "CPU s", "B/event", "allocs/event", "goroutines", "copies", "locks")
	for i := range f.Arms {
		a := &f.Arms[i]
		copies := "–"
		if a.CopyShare != nil {
			copies = percent(*a.CopyShare)
		}
		t.Row(a.Name, a.Load, show.Thousands(a.Offered), show.Thousands(a.Accepted), show.Thousands(a.Dropped),
			show.Thousands(a.DeliveredBeforeStop), show.Thousands(a.Delivered), show.Thousands(a.Duplicates), show.Thousands(a.Requests),
			show.Short(a.MeanBatch), show.Short(a.AgeP50), show.Short(a.AgeP99), show.Short(a.CPU), show.Short(a.BytesPerEvent),
			show.Short(a.AllocsPerEvent), a.Goroutines, copies, locks(a))
	}
	title := fmt.Sprintf("%s events/s for %g s, the receiver answers after %v; linger or interval %v, at most %d in a batch.\nThe age is that of an event when its batch is answered",
		show.Thousands(int64(f.Rate)), f.Seconds, latency, interval, limit)
	if err := t.Print(w, title); err != nil {
		return err
	}
	for i := range f.Arms {
		a := &f.Arms[i]
		if a.Dropped > 0 || a.CloseErr != "" {
			fmt.Fprintf(w, "%s: dropped %s%s\n", a.Name, reasons(a.DroppedBy), said(a.CloseErr))
		}
		if a.Stall > disturbed {
			fmt.Fprintf(w, "%s: the machine was busy with something else for %.0f ms, which is in these figures\n", a.Name, a.Stall)
		}
	}
	return nil
}

func (f *figures) printSaturation(w io.Writer) error {
	var t program.Table
	t.Row("arm", "events/s", "CPU ns/event", "B/event", "locks", "samples", "goroutines")
	for i := range f.Saturation {
		a := &f.Saturation[i]
		t.Row(a.Name, show.Thousands(int64(a.PerSecond)), show.Short(a.CPU*1e9/float64(max(a.Accepted, 1))), show.Short(a.BytesPerEvent), locks(a), a.Samples, a.Goroutines)
	}
	return t.Print(w, fmt.Sprintf("As fast as accepted, by %d goroutines, to a receiver that answers immediately.\nLocks are the share of CPU of selects, channel operations, and waiting for mutexes", producers))
}

func (f *figures) printIngest(w io.Writer) error {
	var t program.Table
	titles := []any{"design", "event"}
	for _, p := range ingestProducers() {
		titles = append(titles, p)
	}
	t.Row(titles...)
	for _, form := range forms() {
		for _, d := range contenders() {
			row := []any{d.name, form.name}
			for _, c := range f.Ingest {
				if c.Design == d.name && c.Event == form.name {
					row = append(row, fmt.Sprintf("%.0f (%.0f to %.0f)", c.NS, c.Min, c.Max))
				}
			}
			if len(row) > 2 {
				t.Row(row...)
			}
		}
	}
	return t.Print(w, "Adding an event when nothing is sent: nanoseconds per event, of all producers together (least to most), by their number")
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// locks shows the share of locks if there are enough samples.
func locks(a *arm.Result) string {
	if a.Samples < 50 {
		return "–"
	}
	return percent(a.Locks)
}

// reasons shows why events were dropped, in order.
func reasons(by map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %s", reason, show.Thousands(by[reason])))
	}
	return strings.Join(parts, ", ")
}
