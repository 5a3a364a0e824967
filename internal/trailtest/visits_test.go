package trailtest

import (
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestVisitsShape checks what makes the data different from that of the other generators.
func TestVisitsShape(t *testing.T) {
	const n, day = 500_000, 86_400_000
	names, campaigns, seconds := map[string]int{}, 0, 0
	var perUser []int
	starters, began, away, sessions := 0, false, 0, 0
	user, last := "", int64(0)
	var campaign event.Value
	for r := range (Visits{Seed: 1, Events: n}).Rows() {
		names[r.Name]++
		campaigns += boolInt(!r.Values[visitsCampaign].Missing())
		seconds += boolInt(r.Time%1000 == 0)
		switch {
		case r.User != user:
			user, began = r.User, false
			perUser = append(perUser, 0)
		case r.Time < last:
			t.Fatalf("%s: got time %d after %d", user, r.Time, last)
		case r.Time-last > 64_999: // more than between events of a session
			sessions++
			away += boolInt(r.Time-last >= day)
		case r.Values[visitsCampaign] != campaign:
			t.Fatalf("%s: got campaigns %v and %v in a session", user, campaign, r.Values[visitsCampaign])
		}
		last, campaign = r.Time, r.Values[visitsCampaign]
		perUser[len(perUser)-1]++
		if r.Name == "open" && !began {
			began = true
			starters++
		}
		if r.Time < firstSecond*1000 || r.Time >= (firstSecond+spanSeconds)*1000 {
			t.Fatalf("%s: got time %d", user, r.Time)
		}
	}
	slices.Sort(perUser)
	between(t, "users", len(perUser), n/24, n/20)
	between(t, "median", perUser[len(perUser)/2], 12, 14)
	between(t, "names", len(names), 10, 10)
	between(t, "view, of 1,000", names["view"]*1000/n, 730, 750)
	between(t, "open, of 1,000", names["open"]*1000/n, 130, 150)
	between(t, "users who open, of 1,000", starters*1000/len(perUser), 735, 765)
	between(t, "campaigns, of 1,000", campaigns*1000/n, 280, 320)
	between(t, "whole seconds, of 1,000", seconds*1000/n, 0, 3)
	between(t, "days away, of 1,000 sessions", away*1000/sessions, 500, 600)
}
