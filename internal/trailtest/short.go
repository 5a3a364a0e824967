package trailtest

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Short is data without sessions: 60 days from 2026-01-05, in which each event is at
// a random second and independent of the others of its user. A user has 1 to 100
// events, each number as often; one in ten thousand has 3,000 to 30,000. 20 M events
// have about 390,000 users.
//
// country is one of 61 and constant for a user, except for 3 % of the events; item is
// one of 50,000, each as often, of view, cart and purchase alone; price is 0.01 to
// 999.99, qty 1 to 9 and rating 0 to 5, all of every event.
type Short struct {
	Seed   uint64
	Events int
}

// The fields of Short.
const (
	shortCountry = iota
	shortItem
	shortPrice
	shortQty
	shortRating
)

// Schema returns country, item, price, qty and rating.
func (Short) Schema() event.Schema {
	return event.Schema{
		shortCountry: {Name: "country", Type: event.String},
		shortItem:    {Name: "item", Type: event.String},
		shortPrice:   {Name: "price", Type: event.Float},
		shortQty:     {Name: "qty", Type: event.Int},
		shortRating:  {Name: "rating", Type: event.Int},
	}
}

// Rows yields the rows; Seed and Events alone decide about them.
func (g Short) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		const span = 60 * 86400
		countries := newZipf(61)
		countryNames := stringValues(strings.Fields(countryCodes + " IS LU")[:61]...)
		items := make([]event.Value, 50_000)
		for i := range items {
			items[i] = event.StringOf("item-" + strconv.Itoa(i+1))
		}
		type moment struct {
			second int64
			rest   source
		}
		var moments []moment
		row := &Row{Values: make([]event.Value, 5)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			n := 1 + int(s.below(100))
			if s.below(10_000) == 0 {
				n = 3000 + int(s.below(27_000))
			}
			n = min(n, left)
			left -= n
			row.User = numbered(buffer, "", 1_000_000+user)
			home := countryNames[countries.pick(&s)]
			moments = moments[:0]
			for range n {
				moments = append(moments, moment{firstSecond + int64(s.below(span)), source{s.next()}})
			}
			slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.second, b.second) })
			for i := range moments {
				row.Time = moments[i].second * 1000
				r := &moments[i].rest
				row.Values[shortItem] = items[r.below(50_000)]
				switch kind := r.below(100); {
				case kind < 55:
					row.Name = "view"
				case kind < 72:
					row.Name = "cart"
				case kind < 80:
					row.Name = "purchase"
				default:
					row.Name = "open"
					if kind >= 95 {
						row.Name = "signup"
					}
					row.Values[shortItem] = event.Value{}
				}
				row.Values[shortCountry] = home
				if r.below(100) < 3 {
					row.Values[shortCountry] = countryNames[countries.pick(r)]
				}
				row.Values[shortPrice] = event.FloatOf(float64(1+r.below(99_999)) / 100)
				row.Values[shortQty] = event.IntOf(int64(1 + r.below(9)))
				row.Values[shortRating] = event.IntOf(int64(r.below(6)))
				if !yield(row) {
					return
				}
			}
		}
	}
}
