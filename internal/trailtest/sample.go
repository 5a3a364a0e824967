package trailtest

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// A sampler makes the events of one customer of the small shop.
type sampler struct {
	source
	rows *[]sampleRow
	user string
	at   int64 // seconds since 1970
	facts
	visits int
}

// facts are the properties of an event, "" where there is none.
type facts struct{ country, device, plan, item, price, campaign string }

type sampleRow struct {
	at          int64
	user, event string
	facts
}

// WriteSample writes the data set of the tutorial as CSV: what 200 customers of a
// small shop did in the eight weeks from 2026-01-05, in order of time. The events
// are visit, signup, view, cart, purchase and open (of the newsletter that those
// get who signed up). plan is there from the signup on; item and price belong to
// view, cart and purchase; campaign is what brought a customer to a visit, if
// anything did.
func WriteSample(w io.Writer) error {
	var rows []sampleRow
	for user := range uint64(200) {
		s := &sampler{source: newSource(2026, user), rows: &rows, user: fmt.Sprintf("u%03d", user+1)}
		s.live()
	}
	slices.SortStableFunc(rows, func(a, b sampleRow) int { return int(a.at - b.at) })
	out := csv.NewWriter(w)
	if err := out.Write([]string{"user", "time", "event", "country", "device", "plan", "item", "price", "campaign"}); err != nil {
		return err
	}
	for _, r := range rows {
		at := time.Unix(r.at, 0).UTC().Format(time.RFC3339)
		if err := out.Write([]string{r.user, at, r.event, r.country, r.device, r.plan, r.item, r.price, r.campaign}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// one of a list.
func (s *sampler) one(list ...string) string { return list[s.below(uint64(len(list)))] }

// wait lets up to so many seconds pass.
func (s *sampler) wait(seconds uint64) { s.at += 1 + int64(s.below(seconds)) }

func (s *sampler) do(event string) {
	if s.at >= firstSecond+8*7*86400 {
		return // after the data set ends
	}
	*s.rows = append(*s.rows, sampleRow{s.at, s.user, event, s.facts})
}

// live goes through the weeks of one customer, who is less and less seen.
func (s *sampler) live() {
	s.country = s.one("KR", "KR", "KR", "KR", "JP", "JP", "US", "US", "DE", "FR")
	home := s.one("mobile", "mobile", "mobile", "desktop", "desktop", "tablet")
	week := min(s.below(8), s.below(8)) // most come early
	stays := uint64(780)                // of 1000, in the week after; it falls week by week
	for n := 0; week < 8; n, week = n+1, week+1 {
		s.at = firstSecond + int64(week)*7*86400 + int64(s.below(7))*86400 + int64(8+s.below(14))*3600 + int64(s.below(3600))
		if n > 0 {
			if !s.perMille(stays) {
				stays = stays * 8 / 10
				continue
			}
			stays = stays * 8 / 10
			if s.plan != "" && s.perMille(900) {
				s.device, s.item, s.price, s.campaign = home, "", "", ""
				s.do("open")
				if !s.perMille(420) {
					continue
				}
				s.wait(60)
			}
		}
		s.device = home
		s.campaign = ""
		if s.perMille(450) {
			s.campaign = s.one("new-year", "new-year", "lunar-new-year", "newsletter", "search", "friends")
		}
		s.visit()
	}
}

// visit goes through the shop once: each thing is done by fewer than the one
// before.
func (s *sampler) visit() {
	goods := []struct {
		item  string
		cents int
	}{{"mug", 1250}, {"tea", 890}, {"teapot", 4900}, {"kettle", 6490}, {"spoon", 350}, {"tray", 2200}, {"cookies", 640}, {"gift card", 3000}}
	s.item, s.price = "", ""
	s.do("visit")
	s.wait(90)
	chance := uint64(680) // of 1000, to sign up
	if s.visits++; s.visits > 1 {
		chance = 200
	}
	if s.plan == "" && s.perMille(chance) {
		s.plan = s.one("free", "free", "free", "plus")
		s.do("signup")
		s.wait(120)
	}
	if !s.perMille(870) {
		return
	}
	for range 1 + min(s.below(4), s.below(4)) {
		g := goods[min(s.below(8), s.below(8))]
		s.item, s.price = g.item, strconv.Itoa(g.cents/100)+"."+fmt.Sprintf("%02d", g.cents%100)
		s.do("view")
		s.wait(240)
	}
	if !s.perMille(480) {
		return
	}
	s.do("cart")
	s.wait(600)
	if s.plan == "" || !s.perMille(560) {
		return
	}
	if s.perMille(150) { // sleeps on it
		s.at += 86400
	}
	s.do("purchase")
}
