# Daily work. `just check` is what CI runs; `just nightly` is all there is.

check:
    bash .ci/run

# All tests with the race detector, long series of kills, podman, musl, MPI, peers, and a hunt.
nightly hunt="10m":
    CASCADE_TIER=nightly bash .ci/run
    just hunt {{hunt}}

# Fresh seeds, for the time each mode: just hunt 10m "properties gangs,steals". A seed that fails
# is printed as a line for sim/testdata/kept.txt or .ci/seeds.
hunt time="5m" modes="plain gangs devices steals gangs,steals forwards gangs,forwards varies rots forwards,rots programs programs,forwards programs,steals properties":
    #!/usr/bin/env bash
    set -uo pipefail
    bad=0
    for mode in {{modes}}; do
      printf '== %s\n' "$mode"
      case $mode in
        properties) bash .ci/properties {{time}} ;;
        plain) go run ./sim/cmd/sim -hunt {{time}} ;;
        *) go run ./sim/cmd/sim -hunt {{time}} $(sed -E 's/(^|,)/ -/g' <<<"$mode") ;;
      esac || bad=1
    done
    exit $bad

test:
    go test ./...

race:
    go test -race -tags check ./...

# Fuzz every decoder for a while each: just fuzz 30s
fuzz time="30s":
    #!/usr/bin/env bash
    set -euo pipefail
    git grep -n '^func Fuzz' -- '*_test.go' | sed -E 's,^(.*)/[^/]+:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*,\1 \2,' |
    while read -r dir name; do
      go test -run '^$' -fuzz "^$name\$" -fuzztime {{time}} "./$dir"
    done

# A cluster under virtual time, one seed after the other: just sim 20000
sim seeds="1000" from="1":
    go run ./sim/cmd/sim -seeds {{seeds}} -from {{from}}

bench pattern=".":
    go test -run '^$' -bench '{{pattern}}' -benchmem ./...

run-example name="ensemble":
    go run ./cmd/cascade run examples/{{name}}/job.yaml

# Wheels that bring the programs, for pip install without Go, into dist: just wheel amd64 arm64
wheel *archs:
    bash packaging/wheel {{archs}}

# The graph of packages in docs/architecture.md, from what they import.
graph:
    go test . -run 'TestPackageGraph$' -update

lint:
    golangci-lint run ./...

# Break real processes, with all kills: just chaos
chaos pattern=".":
    CASCADE_TIER=nightly go test -run '{{pattern}}' -v -timeout 60m ./internal/testing/chaos

# The same again and again, with the race detector, each time at other moments: just chaos-again 20
chaos-again times="20":
    #!/usr/bin/env bash
    set -euo pipefail
    for i in $(seq {{times}}); do
      CASCADE_TIER=nightly CASCADE_CHAOS_SEED=$((i * 1000)) go test -race -tags check -count=1 -timeout 120m ./internal/testing/chaos
    done

# Random kills, cuts and freezes on four hosts, as root: just kills 30m
kills for="30m":
    go test ./internal/testing/chaos -run 'TestKills$' -v -kills {{for}} -timeout 24h -kills.csv kills.csv -kills.svg kills.svg

# Cascade beside Ray, Dask, earthkit-workflows, HyperQueue and MPI on this machine: just bench-peers -short
bench-peers *flags:
    go run ./benchmarks/peers -plots docs/benchmarks {{flags}}
