package main

import (
	"testing"
	"time"
)

const wrkClean = `Running 1s test @ http://127.0.0.1:8000/ping
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms    1.22ms  19.95ms   87.30%
    Req/Sec    39.71k     3.01k   45.09k    70.00%
  Latency Distribution
     50%  638.00us
     75%    1.53ms
     90%    2.71ms
     99%    5.49ms
  79117 requests in 1.00s, 9.66MB read
Requests/sec:  78963.44
Transfer/sec:      9.64MB
`

const wrkFailing = `Running 1s test @ http://127.0.0.1:8000/none
  2 threads and 64 connections
  Latency Distribution
     50%    0.90s 
     99%    1.20s 
  79117 requests in 1.00s, 9.66MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 90
Requests/sec:    100.50
`

const abClean = `This is ApacheBench, Version 2.3 <$Revision: 1923142 $>

Concurrency Level:      1024
Time taken for tests:   9.271 seconds
Complete requests:      102400
Failed requests:        0
Total transferred:      12390400 bytes
Requests per second:    11045.31 [#/sec] (mean)
Time per request:       92.709 [ms] (mean)
Time per request:       0.091 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%     89
  99%    140
 100%    210 (longest request)
`

const abFailing = `Complete requests:      100
Failed requests:        7
   (Connect: 0, Receive: 0, Length: 7, Exceptions: 0)
Non-2xx responses:      3
Requests per second:    10.5 [#/sec] (mean)
`

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parse func([]byte) (toolLoad, error)
		out   string
		want  toolLoad
	}{
		{"wrk", ParseWrk, wrkClean, toolLoad{78963.44, 0, 5490 * time.Microsecond}},
		{"wrk, failures", ParseWrk, wrkFailing, toolLoad{100.5, 100, 1200 * time.Millisecond}},
		{"ab", ParseAb, abClean, toolLoad{11045.31, 0, 140 * time.Millisecond}},
		{"ab, failures", ParseAb, abFailing, toolLoad{10.5, 10, 0}},
	} {
		got, err := tt.parse([]byte(tt.out))
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, out := range []string{"", "unable to connect", "Requests per second:  10\n", "Requests/sec: .\n"} {
		if got, err := ParseWrk([]byte(out)); err == nil {
			t.Errorf("wrk: %q: got %+v, want an error", out, got)
		}
		if got, err := ParseAb([]byte(out)); err == nil {
			t.Errorf("ab: %q: got %+v, want an error", out, got)
		}
	}
}
