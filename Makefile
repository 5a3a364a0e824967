# make help lists the targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/uniflow-labs/uniflow/internal/cli/app.version=$(VERSION)
MODULE  := github.com/uniflow-labs/uniflow
LIBS    := internal/ground internal/records internal/trailtest lock batch trail
TOOLS   := bench
PEERS   := test/brokers test/lake test/web test/otlp test/oracle test/deploy bench/durable/dbos
export CGO_ENABLED ?= 0

# ONCE are flags with which all that is not for the race detector shares its compiled packages
# with the program: the same paths, and not all of them again for the profile of cmd/uniflow,
# which only the program itself is made with. Tests leave go vet to lint.
ONCE := -trimpath -pgo=off
TEST = $(GO) run $(ONCE) ./test/progress $(GO) test -pgo=off -vet=off -p $(PACKAGES)

# SLOW are the packages that take longest, before all others: the last to begin would otherwise
# run alone.
SLOW := ./test/hostile ./nodes/std ./trail/internal/exec ./test/secrets ./lang/javascript ./internal/loader ./internal/ground/spool ./trail ./trail/internal/segment ./test/script ./nodes/web

# LONG are the tests that make test leaves out: the first two compile the program with its profile,
# the third asks for half a minute.
LONG := ^(TestProgram|TestReproducible|TestLayouts)$$

# PACKAGES is how many packages are tested at a time: one more than there are processors, as
# many tests wait for disks, timers and servers. Peers are tested two at a time, likewise.
PACKAGES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
TEST_PEERS = printf '%s\n' $(PEERS) | GOWORK=off CGO_ENABLED=1 xargs -P 2 -I{} sh -c 'cd {} && $(GO) test -timeout 25m $(1) ./... || { echo "FAIL {}"; exit 1; }'

.PHONY: help needs needs-all run build release test test-long test-peers test-console test-faults test-hostile race race-peers race-nethttp check lint generate assets site tidy size bench bench-lock bench-batch bench-streams bench-durable bench-trail profile bench-trail-lessons contention guard guard-selftest stutter fuzz clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 21

run: ## compile without the profile that build compiles by, and serve examples/ping.yaml on port 8000
	@echo 'compiling: about 700 packages the first time, each is printed as it begins'
	$(GO) build -v $(ONCE) -ldflags '$(LDFLAGS)' -o dist/uniflow ./cmd/uniflow
	dist/uniflow start examples/ping.yaml

build: ## the binary, at dist/uniflow
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o dist/uniflow ./cmd/uniflow

release: ## what is published, at dist/release: archives for four platforms, bills of materials, checksums
	$(GO) run $(ONCE) ./cmd/release -version '$(VERSION)' -revision '$(shell git rev-parse HEAD 2>/dev/null)'

size: ## what the program consists of, package by package; fails above the limits of its size, memory and start
	$(GO) test ./test/footprint -count=1 -v -args -packages

needs:
	@test/needs

needs-all:
	@test/needs all

test: needs ## the tests of the engine and its libraries, those of test-long and of compilers for WebAssembly left out; installs the databases that they run on
	$(TEST) -trimpath -skip '$(LONG)|^TestGuest' $(SLOW) work

test-long: ## what test leaves out: size and start of the program, two releases that are equal, and how often random questions reached what saves work
	$(GO) test -count=1 $(ONCE) -vet=off -v -run '$(LONG)' ./test/footprint ./cmd/release ./trail/internal/exec

test-peers: needs-all ## tests with DuckDB, brokers, Chromium and the OpenTelemetry Collector; installs compilers of C and C++
	@$(call TEST_PEERS)

test-console: needs-all ## the console in Chromium, with axe, writes bench/out/console.json; PICTURES=FOLDER keeps a picture of each view, SOAK=10m looks for ten minutes
	cd test/web && GOWORK=off $(GO) test -count=1 -v $(if $(PICTURES),-artifacts -outputdir $(abspath $(PICTURES))) -run '^(TestConsole|TestPictures|TestBundle|TestFrames|TestTop)$$' .

test-faults: ## the fault tests of batch, trail, durable processes and connectors at full length, and without safeguards
	BATCH_FAULTS=full TRAIL_FAULTS=full $(GO) test -timeout 60m ./batch/... ./trail/...
	DURABLE_FAULTS=full $(GO) test -timeout 60m ./journal/... ./internal/durable ./test/durable
	STREAM_FAULTS=full $(GO) test -timeout 60m ./node/stream/... ./nodes/... ./examples
	cd test/brokers && STREAM_FAULTS=full GOWORK=off $(GO) test -timeout 60m ./...
	cd test/lake && STREAM_FAULTS=full GOWORK=off CGO_ENABLED=1 $(GO) test -timeout 60m ./...
	$(GO) test -count=1 -timeout 60m ./test/mutation -args -full

test-hostile: build ## attacks on the built program from outside, under limits of memory, with the figures
	UNIFLOW=$(CURDIR)/dist/uniflow $(GO) test -v -count=1 -timeout 30m ./test/hostile -args -full

check: lint test test-long race ## all that CI runs except the guard; test-peers runs in race

# A program under the race detector waits a second at its end for races of goroutines that go
# on. No test leaves one, and reports are waited for anyway.
race: export GORACE = atexit_sleep_ms=0
race: needs-all ## every test under the race detector, the engine checking itself
	CGO_ENABLED=1 $(TEST) -race -tags invariant -shuffle=on $(SLOW) work
	@$(MAKE) --no-print-directory -j2 race-peers race-nethttp

# The brokers take longest and wait a lot: the other peers and the tests of the web run meanwhile.
# All have the tag invariant, as the engine is compiled once more without it.
race-peers:
	@$(call TEST_PEERS,-race -tags invariant)

race-nethttp:
	CGO_ENABLED=1 $(TEST) -race -tags invariant,nethttp ./nodes/web ./nodes/web/plain ./nodes/serve ./nodes/api ./nodes/auth

lint: ## formatting, vet, staticcheck, generated files
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }
	$(GO) vet $(ONCE) work
	GOFLAGS="$(GOFLAGS) $(ONCE)" $(GO) tool staticcheck work
	$(GO) run $(ONCE) ./internal/docgen -check

generate: ## the reference pages and the JSON Schema
	$(GO) run ./internal/docgen

assets: ## the files of the console, at internal/console/dist, from web; needs npm
	cd web/.npm && npm ci --no-audit --no-fund
	web/.npm/node_modules/.bin/tsc -p web
	$(GO) run $(ONCE) ./cmd/assets

site: ## the documentation as a static site with search, at dist/site
	$(GO) run $(ONCE) ./internal/docgen -site dist/site

tidy: ## go.mod and go.sum of every module; the root's are tidied with the checkout in place of released libraries
	@for m in $(LIBS) $(TOOLS) $(PEERS); do (cd $$m && GOWORK=off $(GO) mod tidy) || exit 1; done
	@mkdir -p dist && cp go.mod dist/tidy.mod && cp go.sum dist/tidy.sum
	@for m in $(LIBS); do $(GO) mod edit -replace=$(MODULE)/$$m=./$$m dist/tidy.mod; done
	GOWORK=off $(GO) mod tidy -modfile=dist/tidy.mod
	@for m in $(LIBS); do $(GO) mod edit -dropreplace=$(MODULE)/$$m dist/tidy.mod; done
	@mv dist/tidy.mod go.mod && mv dist/tidy.sum go.sum

bench: build ## the performance contract: prints the table, writes bench/out/engine.json
	$(GO) run ./bench

# MEDIANS,name,arguments runs benchmarks in five rounds, in which what is compared takes turns.
define MEDIANS
@mkdir -p bench/out && rm -f bench/out/$(1).txt
@for round in 1 2 3 4 5; do $(GO) test -run '^$$' $(2) >>bench/out/$(1).txt || { tail -n 20 bench/out/$(1).txt; exit 1; }; done
@$(GO) tool benchstat bench/out/$(1).txt
endef

bench-lock: ## the four-byte lock and others: prints medians; FULL=1 adds 240 combinations and other conditions
	$(call MEDIANS,lock,-bench '^BenchmarkLock$$' -benchtime 300ms ./bench/lock)
ifdef FULL
	$(GO) test -run '^$$' -bench '^BenchmarkMatrix$$' -benchtime 300ms -timeout 0 ./bench/lock
	$(GO) test -run '^$$' -bench '^BenchmarkScenario$$' -benchtime 1x -timeout 0 ./bench/lock
endif

bench-batch: SECONDS = 60
bench-batch: RATE = 2000
bench-batch: ## the batch processor and others: what arrives, as fast as accepted, and Add; SECONDS=5 for a look
	$(GO) test -run '^$$' -bench '^BenchmarkDeliver$$' -benchtime 1x -timeout 0 ./bench/batch -args -seconds $(SECONDS) -rate $(RATE)
	$(GO) test -run '^$$' -bench '^BenchmarkSaturate$$' -benchtime 10s -timeout 0 ./bench/batch
	$(call MEDIANS,batch,-bench '^BenchmarkAdd$$' -benchtime 300ms ./bench/batch)

SHAPES ?= ecom|short|skew|visits
bench-trail: ## the event store, DuckDB and ClickHouse, medians of five rounds; EVENTS=1000000 for a look
	$(GO) test -run '^$$' -bench '^BenchmarkEvents$$/^($(SHAPES))$$' -benchtime 5x -timeout 0 ./bench/trail -args -events $(or $(EVENTS),20000000)

bench-streams: build needs ## streams and jobs next to the same by hand: prints the table, writes bench/out/streams.json; SCALE=0.15 for a look
	$(GO) run ./bench/streams -scale $(or $(SCALE),1)

bench-durable: build ## durable processes next to a bare loop, a commit, DBOS, and the same without: prints the table, writes bench/out/durable.json; SPAN=1s for a look
	$(GO) run ./bench/durable -span $(or $(SPAN),2s)

profile: needs ## cmd/uniflow/default.pgo, which the compiler makes the program by: from ping, orders, streams and a job
	$(GO) run $(ONCE) ./bench/profile

bench-trail-lessons: ## the five founding lessons of the event store, each next to the naive way
	$(GO) test -run '^$$' -bench Lesson -count 5 ./trail/internal/exec -args -events 1000000
	$(GO) test -run '^$$' -bench Lesson -benchtime 2s -count 5 ./bench/trail

contention: build ## who waits for locks while workflows are under load
	$(GO) test -run '^$$' -bench '^BenchmarkContention$$' -benchtime 1x -timeout 0 ./bench

guard: ## fails if something has become slower since BASE (a revision; the one in bench/guard/base)
	$(GO) run $(ONCE) ./bench/guard -coverage
	$(GO) run $(ONCE) ./bench/guard $(if $(BASE),-base $(BASE))

guard-selftest: ## shows that the guard catches what it should, and nothing else; takes about 20 minutes
	$(GO) test -run '^$$' -bench '^BenchmarkSelftest$$' -benchtime 1x -timeout 0 ./bench/guard

STUTTER_PACKAGES ?= work
stutter: needs ## every test with its program stopped at random moments, to find tests that depend on speed; STUTTER_PACKAGES=./node/... for some
	$(GO) build -o dist/stutter ./test/stutter
	$(TEST) -count=1 -timeout 60m -exec '$(CURDIR)/dist/stutter' $(STUTTER_PACKAGES)

fuzz: ## each fuzz target for 20 seconds
	@for pkg in $$($(GO) list work); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep ^Fuzz); do \
		echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime 20s $$pkg || exit 1; done; done

clean: ## what the targets made
	rm -rf dist bench/out
