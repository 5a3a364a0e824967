package keep

import (
	"fmt"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/uniflow-labs/uniflow/value"
)

// TestLimiterModel has two engines with one store, which take, renew and release at random, and
// compares each answer with what one program would say.
//
// A store has a clock of its own. So time passes by moving all that is kept into the past. When
// exactly a store has decided is not known, but within which time: where the model cannot tell,
// both answers are right.
func TestLimiterModel(t *testing.T) {
	for name, both := range limiters(t) {
		t.Run(name, func(t *testing.T) {
			seed := mathrand.Uint64()
			m := &limiterModel{t: t, rnd: mathrand.New(mathrand.NewPCG(seed, 0)), both: both, answers: map[string]int{}}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			})
			for i, q := range []Quota{{Rate: 0.1, Burst: 3, Concurrency: 2}, {Rate: 1, Burst: 1}, {Rate: 1.0 / 7, Burst: 20}, {Concurrency: 3}} {
				m.keys = append(m.keys, &modelKey{id: fmt.Sprintf("k%d", i), quota: q, leases: map[string]span{}})
			}
			for range 3000 {
				m.step()
			}
			for _, k := range m.keys {
				k.windows(t)
			}
			for _, sort := range []string{"passed", "crowded", "refused"} {
				if m.answers[sort] < 50 {
					t.Errorf("the answers were %v, want many of each", m.answers)
				}
			}
			t.Log(m.answers)
		})
	}
}

// A span is between which times something is, in microseconds.
type span struct{ from, to float64 }

func (s span) plus(d float64) span { return span{s.from + d, s.to + d} }
func (s span) later(o span) span   { return span{max(s.from, o.from), max(s.to, o.to)} }

// A modelKey is a key as one program would count for it.
type modelKey struct {
	id     string
	quota  Quota
	full   span            // when the bucket will be full
	leases map[string]span // when they expire
	passes []span
}

type limiterModel struct {
	t       *testing.T
	rnd     *mathrand.Rand
	both    [2]Limiter
	keys    []*modelKey
	ahead   float64 // of the clock of the machine
	leases  int     // that there were
	answers map[string]int
}

// at calls f, and returns when that was. The clock of a store has milliseconds in places.
func (m *limiterModel) at(f func()) span {
	const blur = 2000
	from := m.ahead + float64(time.Now().UnixMicro()) - blur
	f()
	return span{from, m.ahead + float64(time.Now().UnixMicro()) + blur}
}

func (m *limiterModel) step() {
	k, l := m.keys[m.rnd.IntN(len(m.keys))], m.both[m.rnd.IntN(2)]
	switch x := m.rnd.IntN(100); {
	case x < 50:
		m.take(k, l)
	case x < 56:
		m.release(k, l)
	case x < 80:
		m.renew(k, l)
	case x < 98:
		m.pass([]time.Duration{time.Second, 5 * time.Second, 7 * time.Second, LeaseTime / 3, LeaseTime / 2, LeaseTime + time.Second}[m.rnd.IntN(6)])
	default:
		m.tidy(l)
	}
}

func (m *limiterModel) take(k *modelKey, l Limiter) {
	m.t.Helper()
	m.leases++
	lease := "l" + strconv.Itoa(m.leases)
	var wait time.Duration
	now := m.at(func() {
		var err error
		if wait, err = l.Take(m.t.Context(), k.id, lease, k.quota); err != nil {
			m.t.Fatal(err)
		}
	})
	least, most := 0, 0 // leases that there are
	for _, expires := range k.leases {
		if expires.from > now.to {
			least++
		}
		if expires.to > now.from {
			most++
		}
	}
	interval, burst := k.quota.interval(), float64(k.quota.Burst)
	missing := span{max(k.full.from-now.to, 0), max(k.full.to-now.from, 0)}.plus(interval - burst*interval)
	limited := k.quota.Concurrency > 0
	got := "refused"
	switch wait {
	case 0:
		got = "passed"
	case Crowded:
		got = "crowded"
	}
	may := map[string]bool{
		"crowded": limited && most >= k.quota.Concurrency,
		"passed":  !(limited && least >= k.quota.Concurrency) && missing.from <= 0,
		"refused": !(limited && least >= k.quota.Concurrency) && interval > 0 && missing.to > 0,
	}
	if !may[got] {
		m.t.Fatalf("%s, %+v: got %s after %v, want one of %v: %d to %d leases, and %v microseconds missing", k.id, k.quota, got, wait, may, least, most, missing)
	}
	m.answers[got]++
	switch got {
	case "refused":
		if micros := float64(wait.Microseconds()); micros < math.Floor(missing.from) || micros > missing.to+1 {
			m.t.Fatalf("%s: wait for %v, want %v microseconds", k.id, wait, missing)
		}
	case "passed":
		k.passes = append(k.passes, now)
		if interval > 0 {
			k.full = k.full.later(now).plus(interval)
		}
		if limited {
			k.leases[lease] = now.plus(float64(LeaseTime.Microseconds()))
		}
	}
}

// one returns a lease that a key has or had, or none.
func (m *limiterModel) one(k *modelKey) string {
	leases := append(slices.Sorted(maps.Keys(k.leases)), "none")
	return leases[m.rnd.IntN(len(leases))]
}

func (m *limiterModel) release(k *modelKey, l Limiter) {
	lease := m.one(k)
	if err := l.Release(m.t.Context(), k.id, lease); err != nil {
		m.t.Fatal(err)
	}
	delete(k.leases, lease)
}

// renew renews a lease, which must not come back if it has expired.
func (m *limiterModel) renew(k *modelKey, l Limiter) {
	lease := m.one(k)
	now := m.at(func() {
		if err := l.Renew(m.t.Context(), map[string]string{lease: k.id}); err != nil {
			m.t.Fatal(err)
		}
	})
	expires, ok := k.leases[lease]
	if until := now.plus(float64(LeaseTime.Microseconds())); ok && expires.from > now.to {
		k.leases[lease] = until
	} else if ok && expires.to > now.from {
		k.leases[lease] = span{expires.from, until.to}
	}
}

// pass lets time pass.
func (m *limiterModel) pass(d time.Duration) {
	m.t.Helper()
	m.ahead += float64(d.Microseconds())
	var err error
	switch l := m.both[0].(type) {
	case *sqlLimiter:
		_, _, err = l.db.Run(m.t.Context(), "UPDATE "+l.table+" SET full_at = full_at - $1::float8, expires = expires - $1::float8, "+
			"leases = (SELECT coalesce(jsonb_object_agg(key, value::float8 - $1::float8), '{}') FROM jsonb_each(leases))", value.Float(float64(d.Microseconds())))
	case *redisLimiter:
		for _, k := range m.keys {
			if _, err = l.conn.Eval(m.t.Context(), pastScript(), l.keys(k.id), []string{strconv.FormatInt(d.Microseconds(), 10)}); err != nil {
				break
			}
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// pastScript moves what is kept of a key into the past, and when Redis forgets it.
var pastScript = sync.OnceValue(func() *rueidis.Lua {
	return rueidis.NewLuaScript(`
for _, key in ipairs(KEYS) do
	local left = redis.call('PTTL', key)
	if left >= 0 then redis.call('PEXPIRE', key, math.max(0, left + 1 - ARGV[1] / 1000)) end
end
local full = redis.call('GET', KEYS[1])
if full then redis.call('SET', KEYS[1], string.format('%.2f', full - ARGV[1]), 'KEEPTTL') end
for _, lease in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZINCRBY', KEYS[2], -ARGV[1], lease) end
return '0'`)
})

// tidy removes what has expired, as the store does from time to time.
func (m *limiterModel) tidy(l Limiter) {
	m.t.Helper()
	if l, ok := l.(*sqlLimiter); ok {
		if _, _, err := l.db.Run(m.t.Context(), l.tidy); err != nil {
			m.t.Fatal(err)
		}
	}
}

// windows checks that in no window more have passed than its time allows.
func (k *modelKey) windows(t *testing.T) {
	t.Helper()
	if k.quota.Rate == 0 {
		return
	}
	for i, first := range k.passes {
		for j, last := range k.passes[i:] {
			if most := float64(k.quota.Burst) + k.quota.Rate*(last.to-first.from)/1e6; float64(j+1) > most {
				t.Fatalf("%s: %d have passed in %v microseconds, want at most %.2f", k.id, j+1, last.to-first.from, most)
			}
		}
	}
}
