package trailtest

import (
	"iter"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Visits is data of a service whose users come for some minutes and mostly stay away for days:
// 12 weeks from 2026-01-05, in milliseconds. 20 M events have about 910,000 users: half of them
// 13 events or fewer. Of a hundred events 74 are view, 14 open, with which each session of three
// users in four begins, and the rest are of eight other names.
//
// country is constant for a user, device and campaign for a session, and 70 % of the sessions
// have no campaign; item is one of 20,000 in the manner of Zipf, of view, cart and purchase
// alone; took, in milliseconds, is of every event.
type Visits struct {
	Seed   uint64
	Events int
}

// The fields of Visits.
const (
	visitsCountry = iota
	visitsDevice
	visitsCampaign
	visitsItem
	visitsTook
)

// Schema returns country, device, campaign, item and took.
func (Visits) Schema() event.Schema {
	return event.Schema{
		visitsCountry:  {Name: "country", Type: event.String},
		visitsDevice:   {Name: "device", Type: event.String},
		visitsCampaign: {Name: "campaign", Type: event.String},
		visitsItem:     {Name: "item", Type: event.Int},
		visitsTook:     {Name: "took", Type: event.Int},
	}
}

// Rows yields the rows; Seed and Events alone decide about them.
func (g Visits) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		const (
			perSession = 6
			median     = 242500 // log2 of the median of events, 13
			spread     = 98304
			items      = 936365 // log2 of 20,000
			took       = 7 * one
		)
		pow, week := newPow2Table(), newCalendar()
		countries, campaigns := newZipf(60), newZipf(25)
		countryNames, devices, campaignNames := audience()
		row := &Row{Values: make([]event.Value, 5)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			n := min(int(min(pow.logNormal(&s, median, spread), 20_000)), left)
			left -= n
			row.User = numbered(buffer, "visitor-", user)
			row.Values[visitsCountry] = countryNames[countries.pick(&s)]
			opens := s.perMille(750)
			v := newVisitor(s, n, perSession)
			whole, fraction := int64(-1), int64(0)
			for v.step() {
				row.Name = visitsName(v.below(1000))
				if v.fresh {
					v.open(week, perSession)
					row.Values[visitsDevice] = devices[v.below(8)]
					row.Values[visitsCampaign] = event.Value{}
					if v.perMille(300) {
						row.Values[visitsCampaign] = campaignNames[campaigns.pick(&v.source)]
					}
					if opens {
						row.Name = "open"
					}
				}
				row.Values[visitsItem] = event.Value{}
				switch row.Name {
				case "view", "cart", "purchase":
					row.Values[visitsItem] = event.IntOf(pow.logUniform(&v.source, items))
				}
				row.Values[visitsTook] = event.IntOf(pow.logNormal(&v.source, took, one))
				row.Time = v.millis()
				if row.Time != whole {
					whole, fraction = row.Time, int64(v.below(1000))
				}
				row.Time += fraction
				if !yield(row) {
					return
				}
			}
		}
	}
}

// visitsName returns the name of an event that does not begin a session; n is below 1000.
func visitsName(n uint64) string {
	for _, kind := range []struct {
		name  string
		share uint64
	}{{"view", 865}, {"search", 40}, {"click", 30}, {"cart", 30}, {"leave", 11}, {"purchase", 10}, {"share", 6}, {"rate", 5}} {
		if n < kind.share {
			return kind.name
		}
		n -= kind.share
	}
	return "help"
}
