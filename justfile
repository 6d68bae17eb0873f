# Short names for the scripts in .ci/, which also run without `just`.

# List the recipes.
default:
    @just --list

# Format, lints, documentation; a warning is an error.
check:
    .ci/check

# All tests but those of `full`; none needs a GPU. Arguments go to `cargo test`.
test *ARGUMENTS:
    .ci/test {{ARGUMENTS}}

# The tests that take minutes: kernels faults long fuzz.
full *PARTS:
    .ci/full {{PARTS}}

# Self-tests and a sweep on this machine's GPU; what they print is kept under OUT.
test-gpu OUT='target/gpu':
    .ci/test-gpu {{OUT}}

# The documentation of every crate, into target/doc, and the book of all pages, into docs/book.
docs:
    .ci/docs

# Benchmarks of search spaces, models and the search.
bench:
    .ci/bench

# Build the fuzz targets (nightly) and run each for SECONDS.
fuzz SECONDS='60':
    .ci/fuzz {{SECONDS}}

# Licenses, duplicates and advisories of dependencies, where cargo-deny is installed.
deny:
    .ci/deny

# Record the README's picture of a sweep again.
record:
    .ci/record

# Sweeps on several lanes through a real Slurm and a real Ray, where these are installed.
lanes:
    cargo build --bin evo
    tests/scripts/lanes_slurm.sh
    tests/scripts/lanes_ray.sh
    tests/scripts/lanes_ray_nodes.py
