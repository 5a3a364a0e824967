package segment

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

var shopSchema = event.Schema{
	{Name: "country", Type: event.String}, {Name: "device", Type: event.String}, {Name: "campaign", Type: event.String},
	{Name: "item", Type: event.Int}, {Name: "price", Type: event.Int},
}

// shop draws the events of a shop in 28 days: users with a median of 3 events and
// a mean of about 15, sessions, 96 % views, a campaign for 60 % of the sessions, a
// price for purchases and carts alone. They come user by user.
func shop(seed uint64, n int, add func(user string, millis int64, name string, values []event.Value)) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	zipf := rand.NewZipf(rnd, 1.1, 4, 99_999)
	countries := rand.NewZipf(rnd, 1.2, 2, 59)
	values := make([]event.Value, len(shopSchema))
	for left, u := n, 0; left > 0; u++ {
		user := fmt.Sprintf("u%d", 100_000+u*7)
		events := min(int(math.Exp(1.1+1.75*rnd.NormFloat64()))+1, left)
		left -= events
		values[0] = event.StringOf(fmt.Sprintf("C%d", countries.Uint64()))
		at := int64(1_767_225_600) + rnd.Int64N(14*86400)
		for events > 0 {
			session := min(1+rnd.IntN(9), events)
			events -= session
			at = min(at+rnd.Int64N(3*86400), 1_767_225_600+28*86400-1-600)
			values[1] = event.StringOf([]string{"phone", "desktop", "tablet"}[rnd.IntN(3)])
			values[2] = event.Value{}
			if rnd.IntN(10) < 6 {
				values[2] = event.StringOf(fmt.Sprintf("campaign-%d", rnd.IntN(30)))
			}
			for i := range session {
				name := "view"
				values[3], values[4] = event.IntOf(int64(zipf.Uint64())), event.Value{}
				if x := rnd.IntN(1000); x < 35 {
					name = "cart"
					if x < 10 {
						name = "purchase"
					}
					values[4] = event.IntOf(int64(math.Exp(7.5 + rnd.NormFloat64())))
				}
				add(user, (at+int64(i*20))*1000, name, values)
			}
		}
	}
}

func shopImage(t testing.TB, seed uint64, n int) []byte {
	t.Helper()
	b := NewBuilder(shopSchema)
	shop(seed, n, func(user string, millis int64, name string, values []event.Value) {
		b.Add(user, millis, name, 0, values)
	})
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

const benchRows = 500_000

func BenchmarkBuild(b *testing.B) {
	type added struct {
		user   string
		time   int64
		name   string
		values [5]event.Value
	}
	var rows []added
	shop(1, benchRows, func(user string, millis int64, name string, values []event.Value) {
		rows = append(rows, added{user, millis, name, [5]event.Value(values)})
	})
	f := func(name string) {
		b.Run(name, func(b *testing.B) {
			builder := NewBuilder(shopSchema)
			for b.Loop() {
				for i := range rows {
					r := &rows[i]
					builder.Add(r.user, r.time, r.name, 0, r.values[:])
				}
				if _, err := builder.Image(); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, len(rows))
		})
	}
	f("by user")
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	f("shuffled")
}

// BenchmarkSmallImage makes and opens the images of single appends.
func BenchmarkSmallImage(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			builder := NewBuilder(shopSchema)
			for b.Loop() {
				shop(1, n, func(user string, millis int64, name string, values []event.Value) {
					builder.Add(user, millis, name, 0, values)
				})
				image, err := builder.Image()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := FromBytes("run", image); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// perRow reports the time per row instead of per round.
func perRow(b *testing.B, rows int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

// BenchmarkMerge merges runs that share users.
func BenchmarkMerge(b *testing.B) {
	f := func(name string, runs int, user func(string) string) {
		b.Run(name, func(b *testing.B) {
			builders := make([]*Builder, runs)
			for i := range builders {
				builders[i] = NewBuilder(shopSchema)
			}
			shop(1, benchRows, func(id string, millis int64, name string, values []event.Value) {
				builders[int(millis/86400_000)%runs].Add(user(id), millis, name, 0, values)
			})
			var inputs []Input
			rows := 0
			for _, builder := range builders {
				image, err := builder.Image()
				if err != nil {
					b.Fatal(err)
				}
				s := open(b, image)
				rows += s.Rows()
				inputs = append(inputs, Input{Segment: s, From: math.MinInt64})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Merge(io.Discard, inputs); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, rows)
		})
	}
	f("4 runs", 4, func(id string) string { return id })
	f("28 runs", 28, func(id string) string { return id })
	f("4 runs of long ids", 4, func(id string) string { return fmt.Sprintf("%016x-%s", event.Hash(id), id) })
}

// TestShopSize holds what a row of the benchmark's shape takes on disk.
func TestShopSize(t *testing.T) {
	s := open(t, shopImage(t, 1, 300_000))
	perRow := float64(s.Size()) / float64(s.Rows())
	t.Logf("%.2f bytes per row, %.1f rows per user", perRow, float64(s.Rows())/float64(s.Users()))
	for _, sec := range s.sections {
		t.Logf("%-24s %8.3f", sec.name, float64(sec.span.len)/float64(s.Rows()))
	}
	for _, c := range append([]*Column{s.events}, s.columns...) {
		t.Logf("%-10s %s, %d codes", c.Name(), c.Encoding(), c.Codes())
	}
	if perRow > 8 {
		t.Errorf("got %.2f bytes per row, want at most 8", perRow)
	}
}

// BenchmarkRead reads blocks of 4096 rows of each encoding; copy is the least that
// it can take.
func BenchmarkRead(b *testing.B) {
	const rows, block = 500_000, 4096
	each := func(b *testing.B, read func(lo, hi int)) {
		b.Helper()
		for b.Loop() {
			for lo := 0; lo < rows; lo += block {
				read(lo, min(lo+block, rows))
			}
		}
		perRow(b, rows)
	}
	d8, d32 := make([]uint8, block), make([]uint32, block)
	f := func(enc encoding, codes int) {
		s, _ := forced(b, rand.New(rand.NewPCG(1, 3)), enc, codes, rows, 20)
		c := s.Column("c")
		if codes <= 256 {
			b.Run(fmt.Sprintf("%s/%d/to 8", enc, codes), func(b *testing.B) {
				each(b, func(lo, hi int) { d8 = c.Read8(d8[:cap(d8)], lo, hi) })
			})
		}
		b.Run(fmt.Sprintf("%s/%d/to 32", enc, codes), func(b *testing.B) {
			each(b, func(lo, hi int) { d32 = c.Read32(d32[:cap(d32)], lo, hi) })
		})
	}
	f(encConstant, 60)
	f(encPlain, 200)
	f(encPlain, 60_000)
	f(encDigits, 2)
	f(encDigits, 4)
	f(encDigits, 5)
	f(encDigits, 9)
	f(encPacked, 4)
	f(encPacked, 60)
	f(encPacked, 100_000)
	f(encSparse, 4)
	f(encPresent, 60_000)
	f(encUser, 60)
	f(encUserSparse, 60)
	f(encRuns, 60)
	s := open(b, shopImage(b, 1, rows))
	b.Run("times", func(b *testing.B) {
		each(b, func(lo, hi int) { d32 = s.Times().Read(d32[:cap(d32)], lo, hi) })
	})
	b.Run("copy/to 8", func(b *testing.B) {
		src := make([]uint8, rows)
		each(b, func(lo, hi int) { copy(d8[:block], src[lo:hi]) })
	})
	b.Run("copy/to 32", func(b *testing.B) {
		src := make([]uint32, rows)
		each(b, func(lo, hi int) { copy(d32[:block], src[lo:hi]) })
	})
}

// BenchmarkUnits reads blocks of 4096 rows of encodings whose time depends on how many rows a
// user or a run has. paces are its figures, and those of BenchmarkRead.
func BenchmarkUnits(b *testing.B) {
	const rows, block = 500_000, 4096
	dst := make([]uint8, block)
	for _, perUser := range []int{3, 9, 39, 199} { // at most; half of it on average
		for _, enc := range []encoding{encUser, encRuns, encUserSparse} {
			s, _ := forcedAs(b, rand.New(rand.NewPCG(1, 3)), enc, encUser, 60, rows, perUser)
			c := s.Column("c")
			b.Run(fmt.Sprintf("%s/%d", enc, perUser), func(b *testing.B) {
				for b.Loop() {
					for lo := 0; lo < rows; lo += block {
						dst = c.Read8(dst[:cap(dst)], lo, min(lo+block, rows))
					}
				}
				perRow(b, rows)
			})
		}
	}
}

// BenchmarkPrepare asks for rows whose pages were checked.
func BenchmarkPrepare(b *testing.B) {
	s := open(b, shopImage(b, 1, benchRows))
	for _, c := range s.allColumns() {
		b.Run(c.section()+"/"+c.Encoding(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Prepare(benchRows/2, benchRows/2+2000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheck compares the checksums of a page.
func BenchmarkCheck(b *testing.B) {
	s := open(b, shopImage(b, 1, benchRows))
	b.SetBytes(pageSize)
	for b.Loop() {
		if err := s.checkPage(1, nameUsers); err != nil {
			b.Fatal(err)
		}
	}
}
