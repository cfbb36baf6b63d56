#!/usr/bin/env bash
# Installs what Sangam lacks on Debian and Ubuntu; elsewhere names it.
#
#   scripts/setup.sh run|test|bench|web
#
# Safe to repeat: what is there stays as it is. Never asks a question unless sudo must ask for a
# password on a terminal. Exit status: 0 all there, 2 wrong use, 3 something is lacking.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/sbin:/sbin"

# Package | what to try where there is no dpkg, or where it was installed by hand | what it is for
readonly BUILD='
make|command -v make|the commands of this repository
gcc|command -v cc|the linker driver and the C part of aws-lc-rs
protobuf-compiler|command -v protoc|generating the client of etcd
libprotobuf-dev|test -e "$(dirname "$(command -v protoc)")/../include/google/protobuf/struct.proto"|the definitions that those of etcd include
libc6-dev|test -e /usr/include/stdlib.h|the C library to link with
'
readonly RUN='
ffmpeg|command -v ffmpeg && command -v ffprobe|publishing and playing clips
'
readonly PAGE='
nodejs|command -v node|building the meeting page
npm|command -v npm|its packages
'
readonly SITES='
iproute2|command -v ip|network namespaces
'
readonly PEERS='
python3-gi|/usr/bin/python3 -c "import gi"|the server of films that ours is measured beside
gir1.2-gst-rtsp-server-1.0|test -e /usr/lib/*/girepository-1.0/GstRtspServer-1.0.typelib|the same
gstreamer1.0-plugins-base|gst-inspect-1.0 --exists videotestsrc|its files
gstreamer1.0-plugins-good|gst-inspect-1.0 --exists rtpbin|its RTP
gstreamer1.0-plugins-bad|gst-inspect-1.0 --exists tsparse|its transport streams
gstreamer1.0-tools|command -v gst-inspect-1.0|looking for these
'
readonly TEST='
libxml2-utils|command -v xmllint|checking documents against their schema
python3-websockets|/usr/bin/python3 -m websockets --version|an independent WebSocket client
faketime|command -v faketime|a broker whose clock is wrong
tinyproxy-bin|command -v tinyproxy|a proxy with CONNECT
gstreamer1.0-tools|command -v gst-launch-1.0|a second, independent player
gstreamer1.0-plugins-base|gst-inspect-1.0 --exists videotestsrc|its raw media
gstreamer1.0-plugins-good|gst-inspect-1.0 --exists rtpbin|its RTP
gstreamer1.0-plugins-bad|gst-inspect-1.0 --exists sdpdemux|its SDP and H.264 parser
gstreamer1.0-plugins-ugly|gst-inspect-1.0 --exists x264enc|its H.264 encoder
openssl|command -v openssl|a certificate for a WebRTC peer
gstreamer1.0-rtsp|gst-inspect-1.0 --exists rtspclientsink|its publisher by RTSP
glib-networking|test -e /usr/lib/*/gio/modules/libgiognutls.so|its TLS
gstreamer1.0-nice|gst-inspect-1.0 --exists nicesrc|its ICE
python3-gi|/usr/bin/python3 -c "import gi"|its WebRTC by a script
gir1.2-gst-plugins-bad-1.0|test -e /usr/lib/*/girepository-1.0/GstWebRTC-1.0.typelib|the same
gstreamer1.0-libav|gst-inspect-1.0 --exists avdec_h264|its H.264 decoder
chromium|command -v chromium|a browser for the pages
coturn|command -v turnserver|a relay that is not ours
etcd-server|command -v etcd|the store of several session servers
mpv|command -v mpv|a player of films by RTSP
vlc-bin|command -v cvlc|a player of transport streams by RTP: Debian builds it without RTSP
vlc-plugin-base|test -e /usr/lib/*/vlc/plugins/access/librtp_plugin.so|its RTP
golang-go|command -v go|building an S3 server for the tests
'

say() { printf 'setup: %s\n' "$*"; }

lack() {
    printf 'setup: %s\n' "$@" >&2
    exit 3
}

wanted() {
    case "$1" in
        run) printf '%s' "$BUILD" "$RUN" "$PAGE" ;;
        test) printf '%s' "$BUILD" "$RUN" "$PAGE" "$SITES" "$TEST" ;;
        bench) printf '%s' "$BUILD" "$SITES" "$PEERS" ;;
        web) printf '%s' "$BUILD" "$PAGE" ;;
        *)
            echo "usage: scripts/setup.sh run|test|bench|web" >&2
            exit 2
            ;;
    esac
}

is_there() { # package, probe
    if command -v dpkg-query >/dev/null; then
        local status
        status=$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2>/dev/null || true)
        if [[ $status == ii* ]]; then
            return 0
        fi
    fi
    bash -c "$2" >/dev/null 2>&1 </dev/null
}

# Prints how to become root: nothing, `sudo`, or `none`.
become_root() {
    if [[ $(id -u) == 0 ]]; then
        return
    fi
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
        echo sudo
    else
        echo none
    fi
}

install() { # packages
    local by log
    by=$(become_root)
    if ! command -v apt-get >/dev/null; then
        lack "no apt-get here. Install what Debian calls: $*" "then run this again."
    fi
    if [[ $by == none ]]; then
        lack "not root, and sudo needs a password or is missing. As root, run:" \
            "  apt-get update && apt-get install --no-install-recommends $*"
    fi
    log=$(mktemp)
    say "installing $* (takes a minute or two)"
    # The lists of a fresh image are empty or old; only then is the update needed.
    if ! apt_get "$by" install --no-install-recommends "$@" >"$log" 2>&1; then
        say "updating the package lists first"
        if ! { apt_get "$by" update && apt_get "$by" install --no-install-recommends "$@"; } \
            >"$log" 2>&1; then
            tail -n 15 "$log" >&2
            lack "apt-get could not install: $*" "The end of its log ($log) stands above."
        fi
    fi
    rm -f "$log"
}

apt_get() { # sudo or nothing, arguments
    local by=$1
    shift
    ${by:+"$by"} env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        -o Acquire::Retries=3 -o Acquire::http::Timeout=60 -o Acquire::https::Timeout=60 \
        "$@" </dev/null
}

check_packages() { # purpose
    local missing=() package probe reason
    while IFS='|' read -r package probe reason; do
        if [[ -z $package ]] || is_there "$package" "$probe"; then
            continue
        fi
        say "missing: $package ($reason)"
        missing+=("$package")
    done <<<"$(wanted "$1")"
    if ((${#missing[@]} > 0)); then
        install "${missing[@]}"
        quieten "${missing[@]}"
    fi
}

# Tests start what they need: a server that a package brought stays out of the way.
quieten() { # packages that were just installed
    local by unit
    for unit in coturn etcd; do
        if [[ " $* " == *" $unit"[-\ ]* && -d /run/systemd/system ]]; then
            by=$(become_root)
            ${by:+"$by"} systemctl disable --now --quiet "$unit" || true
        fi
    done
}

check_rust() { # purpose
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    if ! command -v cargo >/dev/null || ! have=$(cargo --version 2>/dev/null); then
        lack "no Rust toolchain found. Install Rust $wanted or later from https://rustup.rs" \
            "(Debian's own is too old), open a new shell, and run this again."
    fi
    have=$(cut -d' ' -f2 <<<"$have")
    if [[ $(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1) != "$wanted" ]]; then
        lack "Rust $have is too old, $wanted or later is needed: run \`rustup update stable\`."
    fi
    if [[ $1 == test ]]; then
        check_component rustfmt fmt
        check_component clippy clippy
    fi
    if [[ $1 == test || $1 == web ]]; then
        check_wasm
    fi
}

# rustup's toolchains have one folder for each target; Debian's packages use the same.
check_wasm() {
    local target=wasm32-unknown-unknown
    if [[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]]; then
        return
    fi
    say "missing: $target (pages that run the core in a browser)"
    if ! command -v rustup >/dev/null || ! rustup target add "$target" </dev/null; then
        lack "add $target to your Rust toolchain: \`rustup target add $target\`."
    fi
}

check_component() { # component, command of cargo
    if cargo "$2" --version >/dev/null 2>&1; then
        return
    fi
    say "missing: $1 (checks of the code)"
    if ! command -v rustup >/dev/null || ! rustup component add "$1" </dev/null; then
        lack "add $1 to your Rust toolchain: \`rustup component add $1\`."
    fi
}

# The S3 server of the tests, into ~/go/bin. Debian's Go is too old for it, and too old to fetch a
# newer one by itself: but that is a module like any other.
readonly GATEWAY=github.com/versity/versitygw/cmd/versitygw@v1.8.0
readonly GO=go1.26.4

check_gateway() {
    local folder log go
    if command -v versitygw >/dev/null || [[ -x $HOME/go/bin/versitygw ]]; then
        return
    fi
    say "missing: versitygw (an S3 server for the tests; takes minutes to build)"
    folder=$(mktemp -d)
    log=$folder/log
    if ! go=$(find_go "$folder" 2>"$log") ||
        ! env GOPATH="$folder" GOBIN="$HOME/go/bin" GOFLAGS=-modcacherw GOTOOLCHAIN=local \
            CGO_ENABLED=0 "$go" install "$GATEWAY" >>"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        lack "versitygw could not be built. The end of the log ($log) stands above."
    fi
    rm -rf "$folder"
}

# Prints a Go that builds it: the one that is there if it is new enough.
find_go() { # folder for a newer one
    local have root platform
    have=$(go env GOVERSION)
    if [[ $(printf '%s\n' "$GO" "$have" | sort -V | head -n 1) == "$GO" ]]; then
        command -v go
        return
    fi
    platform=$(go env GOOS)-$(go env GOARCH)
    env GOPATH="$1" GOFLAGS=-modcacherw go mod download \
        "golang.org/toolchain@v0.0.1-$GO.$platform" >&2 </dev/null
    root=$1/pkg/mod/golang.org/toolchain@v0.0.1-$GO.$platform
    # Modules have no executable files.
    chmod +x "$root"/bin/* "$root"/pkg/tool/*/* >&2
    printf '%s\n' "$root/bin/go"
}

main() {
    local purpose=${1:-}
    wanted "$purpose" >/dev/null
    check_rust "$purpose"
    check_packages "$purpose"
    if [[ $purpose == test ]]; then
        check_gateway
    fi
    say "everything for \`$purpose\` is there"
}

main "$@"
