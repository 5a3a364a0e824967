package trailtest

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Skew is data in which few users do much: one in a hundred does half of the events, a
// thousand or so each, and the others about ten each. 20 M events of the 12 weeks from
// 2026-01-05 have about a million users, whose ids are 16 hexadecimal digits.
//
// One event in a hundred comes twice, equal in everything; both count. Row.Late says how
// late an event arrives: within a minute, but all events of one session in twenty up to
// three days late, and a second copy up to three days as well.
//
// plan, country, language, verified and age belong to a user (age is missing for a third);
// device, os, session, campaign (missing for 60 %), width and member to a session; page, one of
// 100,000 in the manner of Zipf, took, in seconds with three decimals, score, whole
// numbers as floating point, and sequence, from 1 up for each user, are of every event; item is of
// view, cart and purchase, price and quantity of cart and purchase; trial is of one event
// in ten, problem of one in two hundred.
type Skew struct {
	Seed   uint64
	Events int
}

// The fields of Skew.
const (
	skewPlan = iota
	skewCountry
	skewLanguage
	skewVerified
	skewAge
	skewDevice
	skewOS
	skewSession
	skewCampaign
	skewWidth
	skewMember
	skewPage
	skewItem
	skewPrice
	skewQuantity
	skewTook
	skewScore
	skewSequence
	skewTrial
	skewProblem
	skewFields
)

// Schema returns the 20 fields.
func (Skew) Schema() event.Schema {
	return event.Schema{
		skewPlan:     {Name: "plan", Type: event.String},
		skewCountry:  {Name: "country", Type: event.String},
		skewLanguage: {Name: "language", Type: event.String},
		skewVerified: {Name: "verified", Type: event.Bool},
		skewAge:      {Name: "age", Type: event.Int},
		skewDevice:   {Name: "device", Type: event.String},
		skewOS:       {Name: "os", Type: event.String},
		skewSession:  {Name: "session", Type: event.String},
		skewCampaign: {Name: "campaign", Type: event.String},
		skewWidth:    {Name: "width", Type: event.Int},
		skewMember:   {Name: "member", Type: event.Bool},
		skewPage:     {Name: "page", Type: event.String},
		skewItem:     {Name: "item", Type: event.Int},
		skewPrice:    {Name: "price", Type: event.Float},
		skewQuantity: {Name: "quantity", Type: event.Int},
		skewTook:     {Name: "took", Type: event.Float},
		skewScore:    {Name: "score", Type: event.Float},
		skewSequence: {Name: "sequence", Type: event.Int},
		skewTrial:    {Name: "trial", Type: event.Bool},
		skewProblem:  {Name: "problem", Type: event.String},
	}
}

// A skewWorld has what the users of Skew have in common.
type skewWorld struct {
	pow                                                *pow2Table
	week                                               *calendar
	country, language, campaign                        *zipf
	plans, countries, languages, devices, oses, widths []event.Value
	campaigns, problems, pages                         []event.Value
	kinds                                              [100]string // of events, each one in a hundred
}

func newSkewWorld() *skewWorld {
	w := &skewWorld{
		pow: newPow2Table(), week: newCalendar(),
		country: newZipf(60), language: newZipf(20), campaign: newZipf(25),
		plans:     stringValues("free", "free", "free", "free", "free", "basic", "basic", "business"),
		countries: stringValues(strings.Fields(countryCodes)...),
		languages: stringValues(strings.Fields("en zh es ar hi fr pt ru de ja ko it tr pl nl vi th sv cs el")...),
		devices:   stringValues("mobile", "mobile", "mobile", "mobile", "mobile", "desktop", "desktop", "tablet"),
		oses:      stringValues("Android", "Android", "Android", "iOS", "iOS", "Windows", "macOS", "Linux"),
		problems:  stringValues("timeout", "declined", "not found", "out of stock"),
		campaigns: make([]event.Value, 25),
		pages:     make([]event.Value, 100_000),
	}
	for _, n := range []int64{360, 390, 412, 768, 1280, 1440, 1920, 2560} {
		w.widths = append(w.widths, event.IntOf(n))
	}
	for i := range w.campaigns {
		w.campaigns[i] = event.StringOf(fmt.Sprintf("campaign-%02d", i+1))
	}
	for i := range w.pages {
		w.pages[i] = event.StringOf("/p/" + strconv.Itoa(i+1))
	}
	at := 0
	for _, kind := range []struct {
		name  string
		share int
	}{{"view", 46}, {"click", 20}, {"search", 9}, {"scroll", 8}, {"cart", 6}, {"play", 4}, {"purchase", 3}, {"share", 2}, {"rate", 1}, {"help", 1}} {
		for range kind.share {
			w.kinds[at] = kind.name
			at++
		}
	}
	return w
}

// Rows yields the rows; Seed and Events alone decide about them.
func (g Skew) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		w := newSkewWorld()
		row := &Row{Values: make([]event.Value, skewFields)}
		buffer := make([]byte, 0, 32)
		left := g.Events
		for user := uint64(1); left > 0; user++ {
			s := newSource(g.Seed, user)
			n := min(w.events(&s), left)
			left -= n
			id := strconv.AppendUint(buffer[:0], mix(user)|1<<63, 16)
			row.User = string(id)
			if !w.visit(&s, row, n, yield) {
				return
			}
		}
	}
}

// events draws how many events a user has.
func (w *skewWorld) events(s *source) int {
	const (
		median = 165000 // log2 of the median of most users, 5.7
		spread = 98304
		heavy  = 604000 // log2 of the median of one user in a hundred, 595
		wide   = 91750
	)
	if s.perMille(10) {
		return int(min(w.pow.logNormal(s, heavy, wide), 50_000))
	}
	return int(w.pow.logNormal(s, median, spread))
}

// visit yields the n rows of a user. It is false when the loop was left.
func (w *skewWorld) visit(s *source, row *Row, n int, yield func(*Row) bool) bool {
	const (
		perSession = 10
		minute     = 60_000
		days       = 3 * 86_400_000
	)
	fields := row.Values
	fields[skewPlan] = w.plans[s.below(8)]
	fields[skewCountry] = w.countries[w.country.pick(s)]
	fields[skewLanguage] = w.languages[w.language.pick(s)]
	fields[skewVerified] = event.BoolOf(s.perMille(700))
	fields[skewAge] = event.Value{}
	if !s.perMille(333) {
		fields[skewAge] = event.IntOf(int64(16 + s.below(70)))
	}
	joins := s.perMille(300)
	v := newVisitor(*s, n, perSession)
	var offline int64 // how late the session arrives
	for sequence := int64(1); v.step(); sequence++ {
		row.Name = w.kinds[v.below(100)]
		if v.fresh {
			v.open(w.week, perSession)
			w.begin(&v.source, fields)
			if offline = 0; v.perMille(50) {
				offline = int64(v.below(days))
			}
			row.Name = "open"
			if joins {
				row.Name, joins = "signup", false
			}
		}
		w.describe(&v.source, row)
		fields[skewSequence] = event.IntOf(sequence)
		row.Time = v.millis()
		row.Late = offline + int64(v.below(minute))
		if !yield(row) {
			return false
		}
		if v.events > 0 && v.perMille(10) {
			v.events--
			if row.Late = int64(v.below(minute)); v.perMille(100) {
				row.Late = int64(v.below(days))
			}
			if !yield(row) {
				return false
			}
		}
	}
	return true
}

// begin sets the fields of a session.
func (w *skewWorld) begin(s *source, fields []event.Value) {
	fields[skewDevice] = w.devices[s.below(8)]
	fields[skewOS] = w.oses[s.below(8)]
	fields[skewSession] = event.StringOf(strconv.FormatUint(s.next()>>4, 36))
	fields[skewCampaign] = event.Value{}
	if s.perMille(400) {
		fields[skewCampaign] = w.campaigns[w.campaign.pick(s)]
	}
	fields[skewWidth] = w.widths[s.below(8)]
	fields[skewMember] = event.BoolOf(s.perMille(500))
}

// describe sets the fields of an event.
func (w *skewWorld) describe(s *source, row *Row) {
	const (
		pages = 1088529 // log2 of 100,000
		items = 20 * one
		took  = 8 * one // log2 of the median in milliseconds
	)
	fields := row.Values
	fields[skewPage] = w.pages[min(w.pow.logUniform(s, pages), 100_000)-1]
	fields[skewItem], fields[skewPrice], fields[skewQuantity] = event.Value{}, event.Value{}, event.Value{}
	switch row.Name {
	case "cart", "purchase":
		fields[skewPrice] = event.FloatOf(float64(1+s.below(49_999)) / 100)
		fields[skewQuantity] = event.IntOf(int64(1 + s.below(9)))
		fallthrough
	case "view":
		fields[skewItem] = event.IntOf(w.pow.logUniform(s, items))
	}
	fields[skewTook] = event.FloatOf(float64(w.pow.logNormal(s, took, one)) / 1000)
	fields[skewScore] = event.FloatOf(float64(s.below(101)))
	fields[skewTrial], fields[skewProblem] = event.Value{}, event.Value{}
	if s.perMille(100) {
		fields[skewTrial] = event.BoolOf(s.perMille(500))
	}
	if s.perMille(5) {
		fields[skewProblem] = w.problems[s.below(4)]
	}
}
