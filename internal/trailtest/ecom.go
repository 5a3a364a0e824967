package trailtest

import (
	"fmt"
	"iter"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Ecom is the data of a shop: 12 weeks from 2026-01-05 with busy hours and days.
// 20 M events have about 730,000 users: half of them 3 events or fewer, one in a
// hundred 400 or more. Of a hundred events about 95 are view, 2.5 cart, 1 purchase;
// the rest are signup, the first event of one user in seven, and open, with which
// later sessions of those users begin.
//
// country is constant for a user; device and campaign are for a session, and 40 %
// of the sessions have no campaign; item is 1 to 99,999 in the manner of Zipf;
// price, in cents, is of cart and purchase alone.
type Ecom struct {
	Seed   uint64
	Events int
}

// The fields of Ecom.
const (
	ecomCountry = iota
	ecomDevice
	ecomCampaign
	ecomItem
	ecomPrice
)

// Schema returns country, device, campaign, item and price.
func (Ecom) Schema() event.Schema {
	return event.Schema{
		ecomCountry:  {Name: "country", Type: event.String},
		ecomDevice:   {Name: "device", Type: event.String},
		ecomCampaign: {Name: "campaign", Type: event.String},
		ecomItem:     {Name: "item", Type: event.Int},
		ecomPrice:    {Name: "price", Type: event.Int},
	}
}

const countryCodes = "US CN IN BR JP DE GB FR KR RU MX ID IT TR ES CA PH VN TH PL NG EG PK BD NL AR CO UA ZA AU MY SA BE SE RO CL PE CZ GR PT HU AT CH IL DK FI NO IE SG NZ KE MA DZ AE LK KZ EC BG HR SK"

// audience returns 60 countries and 25 campaigns, the most frequent first, and of eight devices
// how many are which.
func audience() (countries, devices, campaigns []event.Value) {
	for i := range 25 {
		campaigns = append(campaigns, event.StringOf(fmt.Sprintf("campaign-%02d", i+1)))
	}
	return stringValues(strings.Fields(countryCodes)...),
		stringValues("mobile", "mobile", "mobile", "mobile", "mobile", "desktop", "desktop", "tablet"), campaigns
}

// Rows yields the rows; Seed and Events alone decide about them.
func (g Ecom) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		const (
			perSession = 8
			three      = 103872 // log2 of the median of events
			spread     = 201400 // log2 of the deviation, e^2.13
			items      = 1088529
			cents      = 739770 // log2 of 2500
		)
		pow, week := newPow2Table(), newCalendar()
		countries, campaigns := newZipf(60), newZipf(25)
		countryNames, devices, campaignNames := audience()
		row := &Row{Values: make([]event.Value, 5)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			n := min(int(min(pow.logNormal(&s, three, spread), 20_000)), left)
			left -= n
			row.User = numbered(buffer, "u", user)
			row.Values[ecomCountry] = countryNames[countries.pick(&s)]
			member := s.perMille(150)
			v := newVisitor(s, n, perSession)
			var item, price event.Value
			basket, started := false, false
			for v.step() {
				name := "view"
				if v.fresh {
					v.open(week, perSession)
					row.Values[ecomDevice] = devices[v.below(8)]
					row.Values[ecomCampaign] = event.Value{}
					if !v.perMille(400) {
						row.Values[ecomCampaign] = campaignNames[campaigns.pick(&v.source)]
					}
					basket = false
					if member && !started {
						name = "signup"
					} else if member && v.perMille(500) {
						name = "open"
					}
					started = true
				}
				row.Values[ecomItem], row.Values[ecomPrice] = event.Value{}, event.Value{}
				if name == "view" {
					r := v.next()
					switch {
					case basket && r%1000 < 260:
						name, basket = "purchase", false
					case !item.Missing() && !v.fresh && r%1000 < 32 && !basket:
						name, basket = "cart", true
						price = event.IntOf(pow.logNormal(&v.source, cents, 65536))
					default:
						if !basket {
							item = event.IntOf(pow.logUniform(&v.source, items))
						}
					}
					if basket && name == "view" && r%1000 < 400 {
						basket = false // left behind
					}
					row.Values[ecomItem] = item
					if name != "view" {
						row.Values[ecomPrice] = price
					}
				}
				row.Time, row.Name = v.millis(), name
				if !yield(row) {
					return
				}
			}
		}
	}
}
