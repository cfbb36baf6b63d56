#!/usr/bin/env bash
# The pages: the meeting that brokers serve, and the four receivers as one file that needs no server.
#
#   scripts/web.sh page              builds the meeting page in web/app/dist, for app/build.rs
#   scripts/web.sh page-check [OUT]  its unit tests, then brokers and browsers; pictures in OUT/page
#   scripts/web.sh page-four [OUT]   four browsers in one meeting
#   scripts/web.sh picture [OUT]     the picture of the README, from the test of a meeting
#   scripts/web.sh bench [OUT]       measures pages in browsers; reports in OUT
#   scripts/web.sh build [OUT]       builds the page of the receivers
#   scripts/web.sh check [OUT]       tries it in a browser
#
# The meeting page needs Node.js 18 and npm, the checks Chromium. page-check takes the program that
# SANGAM names; without it, the debug build. TESTS="board rooms" runs only the files in web/test whose
# names begin with one of these words, without unit tests. bench measures for BENCH_SECONDS each,
# BENCH alone if that names one of page-render and application.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
out=$(realpath -m "${2:-$root/out/web}")
page=$out/receivers.html

build() {
    # The simulator's library compiles for pages as well: no clock, no threads, no files.
    cargo check --locked --package sangam-sim --lib --no-default-features \
        --target wasm32-unknown-unknown --manifest-path "$root/Cargo.toml"
    # Without debug information: the page carries the module.
    CARGO_PROFILE_RELEASE_DEBUG=false cargo build --locked --release --package sangam-wasm --lib \
        --target wasm32-unknown-unknown --manifest-path "$root/Cargo.toml"
    local wasm=$target/wasm32-unknown-unknown/release/sangam_wasm.wasm
    mkdir -p "$out"
    while IFS= read -r line; do
        case $line in
            *'/* page.css */'*) printf '<style>\n%s\n</style>\n' "$(<"$root/web/lab/page.css")" ;;
            *'/* page.js */'*) printf '<script>\n%s\n</script>\n' "$(<"$root/web/lab/page.js")" ;;
            *'/* wasm */'*) printf '<script>const WASM = "%s";</script>\n' "$(base64 -w 0 "$wasm")" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done <"$root/web/lab/index.html" >"$page"
    echo "web: $page, $(stat -c %s "$page") bytes"
}

fail() {
    printf 'web: %s\n' "$@" >&2
    exit 1
}

# Prints the page as it is after its script has run with the sliders at `link`.
browse() { # folder for the browser, link
    # A proxy that is not there: nothing off this machine can answer.
    timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$1/profile" \
        --disable-background-networking --disable-component-update --disable-sync --no-first-run \
        --disable-default-apps --proxy-server=127.0.0.1:9 --virtual-time-budget=5000 \
        --enable-logging=stderr --window-size=1100,1100 --screenshot="$out/receivers.png" \
        --dump-dom "file://$page#$2" 2>"$1/log" || fail "the browser failed:" "$(tail -n 5 "$1/log")"
    # The page's policy refuses every request, so one would be told here, as is what a script throws.
    if grep 'Content Security Policy\|Uncaught\|Refused to' "$1/log" >&2; then
        fail "the page asked for something off its origin, or its script failed"
    fi
}

figure() { # name, row
    grep -o "data-$1=\"[0-9.]*\"" | sed -n "$2p" | tr -dc '0-9.'
}

check() {
    local folder calm mixed direct routed
    grep -q "default-src 'none'" "$page" || fail "the page has no policy"
    folder=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'" EXIT
    calm=$(browse "$folder" 'jitter=0&paths=1')
    mixed=$(browse "$folder" 'jitter=25&paths=3')
    direct=$(browse "$folder" 'jitter=5&paths=3&congestion=200&method=1')
    routed=$(browse "$folder" 'jitter=5&paths=3&congestion=200&method=4')
    for dom in "$calm" "$mixed" "$direct" "$routed"; do
        [[ $dom == *'data-shown="1"'* ]] || fail "the page did not run: $(<"$folder/log")"
        [[ $(grep -o 'data-playout=' <<<"$dom" | wc -l) == 4 ]] || fail "not four receivers"
    done
    [[ $(figure late 4 <<<"$calm") == 0 ]] || fail "packets are late on a calm network"
    local ours wmjitter
    wmjitter=$(figure release 3 <<<"$mixed")
    ours=$(figure release 4 <<<"$mixed")
    awk -v a="$ours" -v b="$wmjitter" 'BEGIN { exit !(a > 40 && a < b) }' ||
        fail "ours releases after $ours ms, WMJitter after $wmjitter ms"
    direct=$(figure release 4 <<<"$direct")
    routed=$(figure release 4 <<<"$routed")
    awk -v a="$routed" -v b="$direct" 'BEGIN { exit !(a > 40 && a < 0.8 * b) }' ||
        fail "our routing releases after $routed ms beside congestion, direct after $direct ms"
    echo "web: the page runs; ours releases after $ours ms, WMJitter after $wmjitter ms"
}

# What the lock file names, once. Whoever cannot reach npm's registry gets all but the meeting page.
packages() {
    local web=$root/web
    if [[ $web/node_modules/.package-lock.json -nt $web/package-lock.json ]]; then
        return
    fi
    if ! npm ci --prefix "$web" --no-audit --no-fund --loglevel=error; then
        npm ping >/dev/null 2>&1 && fail "npm could not install what web/package-lock.json names"
        echo "web: LEFT OUT: npm cannot reach its registry, so there is no meeting page" >&2
        exit 0
    fi
    touch "$web/node_modules/.package-lock.json"
}

page_build() {
    packages
    npm run --prefix "$root/web" --silent build
    echo "web: $root/web/app/dist, $(du -sb "$root/web/app/dist" | cut -f 1) bytes"
}

page_check() {
    packages
    [[ -n ${TESTS:-} ]] || npm run --prefix "$root/web" --silent test
    with_browsers test:browser
}

# Bytes that the README's picture may have: it is loaded with every look at the repository.
PICTURE_MAX=300000

picture() {
    local shown=$root/docs/images/meeting.png
    TESTS=meeting page_check
    (($(stat -c %s "$out/page/meeting.png") <= PICTURE_MAX)) ||
        fail "$out/page/meeting.png has more than $PICTURE_MAX bytes"
    cp "$out/page/meeting.png" "$shown"
    echo "web: $shown, $(stat -c %s "$shown") bytes"
}

# Brokers, the page and browsers.
with_browsers() { # script of web/package.json
    [[ -e $root/web/app/dist/index.html ]] || page_build
    if [[ -z ${SANGAM:-} ]]; then
        cargo build --locked --package sangam-app --manifest-path "$root/Cargo.toml"
        export SANGAM=$target/debug/sangam
    fi
    # A network that is nobody else's: nothing leaves it, and the tests may cut it.
    local alone=(unshare --net)
    [[ $(id -u) == 0 ]] || alone=(unshare --user --map-root-user --net)
    OUT=$out "${alone[@]}" "$0" alone "$1"
}

# Within that network. Browsers use WebRTC only where there is an interface beside loopback.
browsers() { # script of web/package.json
    ip link set lo up
    ip link add out type veth peer name nowhere
    ip address add 10.77.1.1/24 dev out
    ip link set out up
    ip link set nowhere up
    local words
    read -ra words <<<"${TESTS:-}"
    npm run --prefix "$root/web" --silent "$1" -- "${words[@]/#/test/}"
}

case "${1:-}" in
    page) page_build ;;
    page-check) page_check ;;
    page-four)
        packages
        with_browsers test:four
        ;;
    bench)
        packages
        with_browsers bench
        ;;
    picture) picture ;;
    alone) browsers "$2" ;;
    build) build ;;
    check) check ;;
    *)
        echo "usage: scripts/web.sh page|page-check|page-four|picture|bench|build|check [OUT]" >&2
        exit 2
        ;;
esac
