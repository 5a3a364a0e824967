package main

import (
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/bench/show"
)

// A target is what the measurement has to show, and whether it did.
type target struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
	// Correct says that the target is about what is right rather than about
	// how fast: missing it fails the measurement.
	Correct bool `json:"correct"`
}

func (t *target) verdict() string {
	if t.Met {
		return "ok"
	}
	return "MISSED"
}

// Limits of the targets.
const (
	ageSlack    = 20 * time.Millisecond // beside linger and latency
	structLimit = 60.0                  // nanoseconds, with two producers
	jsonLimit   = 250.0
	cheaper     = 5.0  // times, than the channel
	locksLimit  = 0.02 // of the process's CPU
)

// targets judges what was measured: all of our arms, and nothing that was not
// measured.
func targets(f *figures) []target {
	var all []target
	add := func(met, correct bool, name, want, got string) {
		all = append(all, target{name, want, got, met, correct})
	}
	for _, name := range f.Failed {
		if isOurs(name) || name == "ingest" {
			add(false, true, name+": measured", "yes", "no")
		}
	}
	for i := range f.Arms {
		a := &f.Arms[i]
		if !isOurs(a.Name) {
			continue
		}
		low, high := a.least(), a.most()
		add(low.Delivered == low.Offered && low.Offered == high.Offered, true, a.Name+": delivered after Close",
			fmt.Sprint(show.Thousands(a.Offered), " of ", show.Thousands(a.Offered)), show.Thousands(low.Delivered))
		add(high.Dropped == 0 && high.CloseErr == "", true, a.Name+": dropped", "0", show.Thousands(high.Dropped)+said(high.CloseErr))
		add(high.Foreign == 0 && high.Malformed == 0, true, a.Name+": events nobody offered, bodies that are not JSON", "0", show.Thousands(high.Foreign+high.Malformed))
		if a.Name == nameOurs || a.Name == nameSpool { // the other modes have no such bound
			bound := (interval + latency + ageSlack).Seconds() * 1000
			add(a.AgeP99 <= bound, false, a.Name+": event age when answered, p99",
				fmt.Sprintf("≤ %.0f ms", bound), fmt.Sprintf("%.1f ms", a.AgeP99))
			if a.CopyShare != nil {
				add(*a.CopyShare == 0, false, a.Name+": copies, share of memory", "0 %", percent(*a.CopyShare))
			}
		}
	}
	for i := range f.Saturation {
		a := &f.Saturation[i]
		if isOurs(a.Name) {
			add(a.S2 < locksLimit, false, a.Name+": locks and selects, share of CPU at saturation", "< "+percent(locksLimit), percent(a.S2))
		}
	}
	for _, b := range []struct {
		event string
		limit float64
	}{{"struct", structLimit}, {"json150", jsonLimit}} {
		mine := f.ns(nameOurs, b.event, 2)
		if mine == 0 {
			continue
		}
		add(mine <= b.limit, false, "Add, "+b.event+", 2 producers", fmt.Sprintf("≤ %.0f ns", b.limit), fmt.Sprintf("%.1f ns", mine))
		for _, name := range []string{nameChannel, nameUnbuffered} {
			// With JSON, most of what is left is encoding, which all of them do.
			if channel := f.ns(name, b.event, 2); channel > 0 && b.event == "struct" {
				add(channel/mine >= cheaper, false, "Add, "+b.event+", 2 producers: "+name+" ÷ ours", fmt.Sprintf("≥ %.0f x", cheaper), fmt.Sprintf("%.1f x", channel/mine))
			}
		}
	}
	return all
}

func said(err string) string {
	if err == "" {
		return ""
	}
	return " (" + err + ")"
}

// correct reports whether all targets of correctness are met.
func (f *figures) correct() bool {
	for i := range f.Targets {
		if f.Targets[i].Correct && !f.Targets[i].Met {
			return false
		}
	}
	return true
}
