SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Every package of every module of go.work.
PACKAGES = $$(go list -f '{{.Dir}}/...' -m)

# What the tests start, as command:Debian package, and what the race detector is built with. NEED_ names what those of one store
# start, and BUILT_ what of it is built here.
NEED_redis = redis-server:redis-server
NEED_etcd = etcd:etcd-server
BUILT_etcd = bin/etcd
BUILT_consul = bin/consul
NEED_zookeeper = java:default-jre-headless /usr/share/java/zookeeper.jar:zookeeper redis-server:redis-server
NEED_memcached = memcached:memcached
NEED_python = /usr/bin/python3:python3
NEED_sqlite = $(NEED_python)
NEED_postgres = /usr/lib/postgresql:postgresql pgbouncer:pgbouncer $(NEED_python) /usr/lib/python3/dist-packages/psycopg2:python3-psycopg2
NEED_mysql = mariadbd:mariadb-server $(NEED_python) /usr/lib/python3/dist-packages/pymysql:python3-pymysql
DATABASES = $(NEED_postgres) $(NEED_mysql)
SHELLS = zsh:zsh fish:fish groff:groff-base curl:curl jq:jq $(NEED_python) /usr/sbin/nginx:nginx-light
BROWSER = chromium:chromium
SERVERS = $(SHELLS) $(BROWSER) $(NEED_redis) $(NEED_etcd) $(NEED_zookeeper) $(NEED_memcached) $(DATABASES)
# What checks the models, beside the compiler.
SPIN = spin:spin
COMPILER = gcc:gcc /usr/include/stdlib.h:libc6-dev

# How many compile at a time, or fuzz. Tests wait for leases and servers most of their time, and leave a machine of two processors
# idle for four fifths of it unless more of them run at once: those of so many packages, and so many of each package.
PARALLEL = 2
PACKAGES_AT_ONCE = 3
TESTS_AT_ONCE = 6
TESTSUM = go run ./internal/repo/testsum -o bin/tests --
TEST = -p=$(PACKAGES_AT_ONCE) -parallel=$(TESTS_AT_ONCE) -count=1 -timeout=12m
# The race detector makes the walk of the engine and the rules of this repository twenty times as slow; make explore and make
# rules test them without.
RACED = $$(go list $(PACKAGES) | grep -v -e /proof/explore -e '/internal/repo$$')

# What make quick tests: the packages none of whose tests links what starts servers, and those of SERVERLESS, which link it for
# something else. Of the first, proof/explore takes a minute of all processors (make explore), internal/repo reads every file
# again after each change (make rules), and proof/page needs a browser.
SERVERLESS = ./store/memory ./store/quorum ./store/shard ./internal/secure
UNSERVED = $$(go list -test -f '{{.ImportPath}} {{join .Deps " "}} ' $(PACKAGES) | \
	sed -n -e '\|/internal/servertest |d' -e '\|/proof/explore\.test |d' -e '\|/internal/repo\.test |d' -e '\|/proof/page\.test |d' -e 's|^\([^ ]*\)\.test .*|\1|p')

# What make check makes: those of CHECKS, then those that internal/repo/turns chooses within BUDGET, then the tests. Those of BESIDE
# need the processors alone; they get what is left while the others wait for servers.
CHECKS = servers gofmt vet fix lint rules tidy-check build
BUDGET = 200s
BESIDE = explore models-some
# What make check STORE=redis makes, for one folder of store/.
CHECKS_OF_STORE = store-servers gofmt lint rules test-store
ALL_STORES = $(notdir $(patsubst %/,%,$(wildcard store/*/)))
CHECK = MAKE='$(MAKE)' internal/repo/check.sh
KNOWN_STORE = $(if $(filter-out $(ALL_STORES),$(STORE))$(word 2,$(STORE)),$(error there is no store "$(STORE)"; the folders of store/ are: $(ALL_STORES)))
FUZZTIME = 20s
SOME = 8
RUNS = 200
QUICK = sqlite,redis,redis-cluster,redlock-3,shard,memcached,etcd-1,consul,postgres,mariadb

# How make bench-before compares: how often, for how long, on which stores, which scenarios (empty means all), and over a link with
# which delay each way.
ROUNDS = 9
SECONDS = 1
STORES = memory,sqlite,redis
ONLY =
LINK = 0

# The adapters, whose workspace is their own. adapters-two tests two of them, others with each commit, but none of HEAVY: their
# libraries take minutes to compile. One of those comes to the two at each 32nd commit; make adapters tests all.
ADAPTERS = $$(sed -n 's|^[[:space:]]*\(use \)\?\./||p' adapters/go.work)
HEAVY = kubelock
LIGHT = $$(for adapter in $(ADAPTERS); do case " $(HEAVY) " in *" $$adapter "*) ;; *) echo "$$adapter" ;; esac; done)

.PHONY: help rules build sizes build-without install uninstall release packages demo demos servers test quick race check full flaky store-servers test-store newer newer-two newest adapters adapters-two models models-some explore mutants chaos alarms peers soak interop bench bench-jvm bench-before heap fuzz lint tidy clean gofmt vet fix tidy-check release-dry compiler bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# How the command is built: without what only a debugger reads, and without the pages of traces of etcd's client library, which
# nobody can open in a command and for which the linker keeps half as much again. TAGS leaves stores out: no_redis, no_etcd ...
BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags '-s -w' -tags 'grpcnotrace,$(TAGS)'
STORED = consul etcd mysql postgres redis sqlite zookeeper

build: bin ## build the command: bin/stile; TAGS=no_etcd,no_sqlite leaves stores out
	@$(BUILD) -o bin/stile ./cmd/stile

sizes: bin ## print what each store adds to the command
	@full=$$($(BUILD) -o bin/sizes ./cmd/stile && stat -c %s bin/sizes); \
	echo "all stores: $$((full / 100000))00 kB"; \
	for store in $(STORED); do \
		$(MAKE) --no-print-directory build-without STORE=$$store; \
		echo "$$store: $$(((full - $$(stat -c %s bin/sizes)) / 100000))00 kB"; \
	done; \
	rm bin/sizes

# install puts everything below $(DESTDIR)$(PREFIX), from which uninstall takes it away again.
PREFIX = /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
PLACES = $(DESTDIR)$(PREFIX)/bin $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	$(SHARE)/fish/vendor_completions.d

install: build ## install the command, its manual and completions: PREFIX=/usr/local DESTDIR=
	@mkdir -p $(PLACES)
	@install -m 755 bin/stile $(DESTDIR)$(PREFIX)/bin/stile
	@bin/stile man $(SHARE)/man/man1
	@bin/stile completion bash > $(SHARE)/bash-completion/completions/stile
	@bin/stile completion zsh > $(SHARE)/zsh/site-functions/_stile
	@bin/stile completion fish > $(SHARE)/fish/vendor_completions.d/stile.fish
	@echo "stile is installed below $(DESTDIR)$(PREFIX); locks are kept where STILE_URL says, or in your state directory"

uninstall: ## remove what make install put there; locks stay
	@rm -f $(DESTDIR)$(PREFIX)/bin/stile $(SHARE)/man/man1/stile.1 $(SHARE)/man/man1/stile-*.1 \
		$(SHARE)/bash-completion/completions/stile $(SHARE)/zsh/site-functions/_stile $(SHARE)/fish/vendor_completions.d/stile.fish

build-without:
	@go build -trimpath -ldflags '-s -w' -tags 'grpcnotrace,no_$(STORE)' -o bin/sizes ./cmd/stile

release: ## give all modules one version and tag it, once its modules were used from outside: VERSION=v0.1.0
	@go run ./internal/repo/release $(VERSION)

release-dry:
	@go run ./internal/repo/release -dry v0.999.0

packages: ## make Debian packages and tar files for amd64 and arm64 in dist/: VERSION=v0.1.0, or else of HEAD
	@packaging/build.sh $(VERSION)

demo: build ## sell 100 tickets from 8 processes, first without a lock, then with one
	@bin/stile demo tickets

demos: build ## run all demos, of the command and of examples/demo, on SQLite, on URL=redis://localhost, or on servers for STORE=etcd or STORE=all; the market in DATA=
	@$(if $(STORE),$(MAKE) --no-print-directory servers,$(if $(DATA),,internal/repo/install.sh redis-server:redis-server))
	@go build -trimpath -tags grpcnotrace -o bin/demo ./examples/demo
	@go run ./internal/repo/demos $(if $(STORE),-store '$(STORE)') $(if $(URL),-url '$(URL)') $(if $(DATA),-data '$(DATA)') bin/stile bin/demo

servers: bin/etcd bin/consul ## install the servers that the tests start, where they are missing
	@internal/repo/install.sh $(SERVERS)

test: servers bin ## run the tests of all modules on real servers
	@$(TESTSUM) $(TEST) $(PACKAGES)

# Most of these tests wait, so many of them run at once. What passed before and has not changed is not run again.
quick: ## run the tests that need no server, of what has changed since they passed; less than a minute, and nothing is installed
	@unserved=$(UNSERVED); go test -p=4 -parallel=16 $$unserved $(SERVERLESS)

rules:
	@go test -count=1 ./internal/repo

# Vet looks at all packages by itself.
race: servers compiler bin ## run the tests with the race detector
	@CGO_ENABLED=1 $(TESTSUM) -race -vet=off $(TEST) $(RACED)

check: ## what must pass before a change lands, and what CI runs; BUDGET=200s for parts by turns; STORE=redis checks one store
	@$(if $(STORE),$(KNOWN_STORE)BESIDE= $(CHECK) $(CHECKS_OF_STORE),turns=$$(go run ./internal/repo/turns -budget $(BUDGET)); \
	BESIDE='$(BESIDE)' $(CHECK) $(CHECKS) $$turns race)

# What is made must not take FOR for its own.
full: bin ## everything, before a release, in parts; goes on where it stopped: FOR=55m, or PART=chaos-etcd
	@env -u MAKEFLAGS -u FOR -u PART go run ./internal/repo/full $(if $(FOR),-for $(FOR)) $(PART)

flaky: servers compiler bin ## run tests many times, beside a load, and list what failed how often: PKG=./store/redis; FOR=55m
	@go run ./internal/repo/flaky -parallel $(TESTS_AT_ONCE) $(if $(FOR),-for $(FOR)) $(PKG)

store-servers: $(BUILT_$(STORE))
	@internal/repo/install.sh $(NEED_$(STORE))

test-store: compiler bin
	@CGO_ENABLED=1 $(TESTSUM) -race -vet=off $(TEST) ./store/$(STORE)/... ./driver/...

models: compiler ## visit all states of the protocols in proof/models/, and see that each known mistake is found; about four minutes
	@internal/repo/install.sh $(SPIN)
	@proof/models/run

# Those that have changed since they passed, and one more, another with each commit.
models-some: compiler
	@internal/repo/install.sh $(SPIN)
	@TURN=$$(git rev-list --count HEAD) proof/models/run

# The limit is for make check, which may leave little of the processors.
explore: ## walk every interleaving of the engine in small worlds; FOR=10m goes on with larger ones for so long
	@go test -count=1 -timeout 30m ./proof/explore/...
	@go run ./proof/explore/cmd $(if $(FOR),-set long -for $(FOR))

mutants: servers ## see that known mistakes, put back into the code, are found: SOME=8 of them, or 0 for all, with the matrix
	@go run ./proof/mutants -some $(SOME) $(if $(filter 0,$(SOME)),-matrix)

chaos: servers ## lock from several processes under faults: STORE=etcd, or serve for the lock service; FOR=10m SEED=7 PAIRS=1; without STORE each store
	@go run ./proof/chaos $(if $(STORE),-store $(STORE)) $(if $(FOR),-for $(FOR)) $(if $(SEED),-seed $(SEED)) $(if $(PAIRS),-pairs)

soak: servers ## a bounded run under faults, with a line for each store in docs/evidence/soak.log: FOR=10m STORE=etcd SEED=7 PAIRS=1
	@go run ./proof/chaos -log docs/evidence/soak.log $(if $(STORE),-store $(STORE)) $(if $(FOR),-for $(FOR)) $(if $(SEED),-seed $(SEED)) $(if $(PAIRS),-pairs)

alarms: servers ## many short runs under faults, on stores that start quickly, and how often the checks were wrong: RUNS=200
	@mkdir -p bin
	@go run ./proof/chaos -store $(QUICK) -for 8s -seed 1 -runs $(RUNS) -log bin/alarms.log

peers: servers ## measure lock libraries of others under faults, for the page docs/evidence/peers.md: PEER=redsync; about an hour for all
	@internal/repo/install.sh mvn:maven javac:default-jdk-headless
	@internal/java/build proof/chaos/java
	@go run ./proof/chaos -peer $(if $(PEER),$(PEER),all) -for 20s -seed 1 -runs 3 -o docs/evidence/peers.json
	@go test ./internal/repo -run TestPeerPage -update

# Most of the time is spent waiting, so the benchmarks beside libraries for Java are tried meanwhile.
interop: servers build ## lock the same names with stile and with the clients of others; about 4 minutes
	@internal/repo/install.sh mvn:maven javac:default-jdk-headless
	@internal/java/build proof/bench/java
	@mkdir -p bin; (cd proof/bench; go test $(TEST) -run '^TestQuick$$/-jvm$$' . -jvm) >bin/bench-java.log 2>&1 & jvm=$$!; \
	n=0; for run in proof/interop/*/run; do \
		if [ -x "$$run" ]; then echo "$$run"; "$$run"; n=$$((n + 1)); fi; \
	done; \
	if [ $$n = 0 ]; then echo "proof/interop/ has no foreign clients yet: nothing was run"; fi; \
	status=0; wait $$jvm || status=$$?; cat bin/bench-java.log; exit $$status

newer: ## run the cases of the contract and of faults on PostgreSQL 17 and 18 and on MariaDB 11.4; about two minutes
	@internal/repo/install.sh $(DATABASES)
	@internal/servers/newest/run -cases mariadb11 postgres18 postgres17

# One of them is left out, another with each commit: the third took a minute and a half alone.
newer-two:
	@internal/repo/install.sh $(DATABASES)
	@some=(mariadb11 postgres18 postgres17); unset "some[$$(git rev-list --count HEAD) % 3]"; \
	internal/servers/newest/run -cases "$${some[@]}"

newest: ## run all tests of these modules on these servers, on MariaDB 11.8 and MySQL 9.7, and the cases of redis on Redis 6.2 and 8 and Valkey 9; about eight minutes
	@internal/repo/install.sh $(DATABASES)
	@internal/servers/newest/run postgres17 postgres18 mariadb11 mariadb118 mysql9
	@internal/servers/newest/run -cases redis62 redis8 valkey9

adapters: servers bin/golangci-lint ## lint and test the adapters to libraries of others; ONLY=gocronlock takes one
	@cd adapters && for adapter in $(if $(ONLY),$(ONLY),$(ADAPTERS)); do \
		../bin/golangci-lint run "./$$adapter/..."; \
		go test $(TEST) "./$$adapter/..."; \
	done

adapters-two:
	@all=($(LIGHT)); n=$${#all[@]}; at=$$(git rev-list --count HEAD); \
	some="$${all[$$((2 * at % n))]} $${all[$$(((2 * at + 1) % n))]}"; \
	heavy=($(HEAVY)); \
	if [ $$((at % 32)) = 0 ]; then some+=" $${heavy[$$((at / 32 % $${#heavy[@]}))]}"; fi; \
	$(MAKE) --no-print-directory adapters ONLY="$$some"

bench: servers ## measure beside other libraries, into docs/evidence/bench
	@mkdir -p docs/evidence/bench
	@cd proof/bench && for store in redis etcd zookeeper consul postgres mysql sqlite setnx redlock memcached; do \
		go run . -store "$$store" -out "../../docs/evidence/bench/$$store.md"; \
	done

bench-jvm: servers ## measure beside lock libraries for Java, into docs/evidence/bench; about seven minutes
	@internal/repo/install.sh mvn:maven javac:default-jdk-headless
	@internal/java/build proof/bench/java
	@cd proof/bench && for store in redis-jvm zookeeper-jvm; do go run . -store "$$store" -out "../../docs/evidence/bench/$$store.md"; done

bench-before: ## measure beside an earlier revision (REV=…), and fail if anything is slower
	@go run ./proof/benchbefore -rounds $(ROUNDS) -seconds $(SECONDS) -stores $(STORES) -only '$(ONLY)' -link $(LINK) $(REV)

heap: ## print what a held lease and a local waiter take on the heap, on the memory store
	@for scenario in held waiting; do go run ./proof/bench/scenarios -local -run $$scenario; done

fuzz: ## fuzz each parser for FUZZTIME (20s)
	@for pkg in $$(go list -f '{{.ImportPath}}' $(PACKAGES)); do \
		for name in $$(go test -run '^$$' -list '^Fuzz' $$pkg | sed -n '/^Fuzz/p'); do \
			echo "$$pkg $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -parallel $(PARALLEL) $$pkg; \
		done; \
	done

lint: bin/golangci-lint ## run the linters of .golangci.yml; STORE=redis: on this store only
	@bin/golangci-lint run $(if $(STORE),$(KNOWN_STORE)./store/$(STORE)/...,$(PACKAGES))

tidy: ## write go.mod and go.sum of every module
	@go run ./internal/repo/tidy -w

clean: ## remove what was built
	@rm -rf bin dist

gofmt:
	@out=$$(gofmt -l .); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet:
	@go vet $(PACKAGES)

fix:
	@status=0; out=$$(go fix -diff -stringsbuilder=false $(PACKAGES)) || status=$$?; \
	if [ -n "$$out" ]; then echo "go fix would change:"; echo "$$out"; exit 1; fi; \
	exit $$status

tidy-check:
	@go run ./internal/repo/tidy

compiler:
	@internal/repo/install.sh $(COMPILER)

bin:
	@mkdir -p bin

# A current server beside the one of Debian, which is the oldest that is supported.
bin/etcd: internal/servers/etcd/go.mod internal/servers/etcd/go.sum | bin
	@echo "building etcd, which takes about a minute"
	@GOWORK=off go build -C internal/servers/etcd -p $(PARALLEL) -o ../../../bin/etcd go.etcd.io/etcd/server/v3
	@touch $@

# The newest Consul whose own modules are published, so that it can be built as a module.
bin/consul: internal/servers/consul/go.mod internal/servers/consul/go.sum | bin
	@echo "building Consul, which takes two or three minutes"
	@GOWORK=off go build -C internal/servers/consul -p $(PARALLEL) -ldflags '-s -w' -o ../../../bin/consul github.com/hashicorp/consul
	@touch $@

bin/golangci-lint: internal/lint/go.mod internal/lint/go.sum | bin
	@echo "building the linter, which takes about a minute"
	@GOWORK=off go build -C internal/lint -p $(PARALLEL) -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
