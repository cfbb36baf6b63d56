#!/bin/sh
# Encodes the bench's films and keeps their frame sizes as numbers in lab/bench/data.
#
# The first stands in for Yima's (Zimmermann et al. 2004, section 3.1: a DVD, MPEG-2 of variable
# rate, 5.33 Mb/s in the mean): five minutes of 31 scenes, soft and still ones, moving ones and ones
# full of detail and grain, encoded in two passes within what a DVD may have (9.8 Mb/s, 224 KiB of
# decoder's buffer), with sound of 224 kb/s. The second is their MPEG-4 of 800 kb/s. Everything is
# drawn by FFmpeg from seeds and encoded in one thread, so the same FFmpeg makes the same numbers.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rate=25
version=$(ffmpeg -version | head -n 1 | cut -d' ' -f1-3)

# One scene: kind, seconds, grain (noise added to each picture), seed.
source_of() { # kind, size, seed
    case "$1" in
        soft) echo "gradients=s=$2:r=$rate:seed=$3:speed=0.004" ;;
        shapes) echo "testsrc2=s=$2:r=$rate" ;;
        zoom) echo "mandelbrot=s=$2:r=$rate:start_scale=0.4:end_scale=0.02:end_pts=300" ;;
        crowd) echo "life=s=180x144:r=$rate:mold=12:seed=$3:life_color=0xe0c8a0:death_color=0x604830:mold_color=0x302418,scale=$2:flags=bicubic" ;;
        rain) echo "cellauto=s=360x288:r=$rate:rule=30:seed=$3,scale=$2:flags=bicubic,gblur=1.2" ;;
        face) echo "gradients=s=$2:r=$rate:seed=$3:speed=0.0008" ;;
        *) echo "there is no scene called $1" >&2; exit 2 ;;
    esac
}

scenes='
soft 9 14 1
face 14 20 2
shapes 6 2 3
face 8 22 4
zoom 11 0 5
crowd 5 0 6
face 17 18 7
rain 4 2 8
soft 12 26 9
crowd 7 4 10
face 13 16 11
zoom 9 6 12
shapes 8 6 13
soft 6 16 14
rain 9 0 15
face 16 22 16
crowd 4 0 17
soft 7 30 18
zoom 12 2 19
face 10 20 20
rain 6 6 21
shapes 9 0 22
face 15 24 23
crowd 9 2 24
soft 11 18 25
face 12 28 26
zoom 7 0 27
rain 5 0 28
face 18 20 29
crowd 8 6 30
soft 13 14 31
'

# Encodes all scenes by the given options; $1: size, $2: what comes of it, the rest: the encoder's.
encode() {
    size=$1 out=$2
    shift 2
    set -- -map '[film]' -map '[sound]' -r "$rate" -threads 1 "$@"
    graph='' count=0
    sources="$work/sources"
    : >"$sources"
    while read -r kind seconds grain seed; do
        [ -n "$kind" ] || continue
        noise=''
        [ "$grain" = 0 ] || noise=",noise=c0s=$grain:c0f=t:c0_seed=$seed"
        echo "$(source_of "$kind" "$size" "$seed"),format=yuv420p$noise,setsar=1,trim=duration=$seconds,setpts=PTS-STARTPTS[s$count];" >>"$sources"
        graph="$graph[s$count]"
        count=$((count + 1))
    done <<END
$scenes
END
    {
        cat "$sources"
        echo "$graph concat=n=$count:v=1:a=0[film];"
        echo "anoisesrc=seed=1:color=pink:amplitude=0.3:sample_rate=48000,atrim=duration=300,asetnsamples=n=1152:p=0[sound]"
    } >"$work/graph"
    ffmpeg -nostdin -v error -y -filter_complex_threads 1 -filter_complex_script "$work/graph" \
        "$@" "$out"
}

# Bytes of picture and of sound of each 40 ms, by their decoding time; $1: the film, $2: the trace,
# $3: what it is, in words.
keep() {
    {
        echo "# $3"
        echo "# $rate frames/s. Made by scripts/make-film-traces.sh with $version."
        echo "picture,sound"
        ffprobe -v error -show_entries packet=codec_type,dts_time,size -of csv=p=0 "$1" |
            awk -F, -v rate="$rate" '
                $1 == "video" { if (!begun) { begun = 1; first = $2 }
                                frame = int(($2 - first) * rate + 0.5); picture[frame] += $3
                                if (frame > last) last = frame }
                $1 == "audio" { if (begun) sound[int(($2 - first) * rate)] += $3 }
                END { for (frame = 0; frame <= last; frame++)
                          print picture[frame] + 0 "," sound[frame] + 0 }'
    } >"$work/trace.csv"
    mv "$work/trace.csv" "$root/lab/bench/data/$2"
    echo "wrote lab/bench/data/$2" >&2
}

echo "encoding five minutes of MPEG-2, twice" >&2
dvd="-c:v mpeg2video -b:v ${DVD_RATE:-4940k} -g 12 -bf 2 -c:a mp2 -b:a 224k -passlogfile $work/pass"
# The options are words. A decoder's buffer is kept to in the second pass, which knows the film.
# shellcheck disable=SC2086
encode 720x576 "$work/first.ts" $dvd -pass 1
# shellcheck disable=SC2086
encode 720x576 "$work/dvd.ts" $dvd -pass 2 -maxrate 9500k -bufsize 1835008
keep "$work/dvd.ts" film-dvd.csv "A film as on a DVD: MPEG-2, 720x576, variable rate, MP2 of 224 kb/s."

echo "encoding five minutes of MPEG-4" >&2
encode 352x288 "$work/small.ts" -c:v mpeg4 -b:v "${SMALL_RATE:-654k}" -maxrate 1600k \
    -bufsize 1600k -g 100 -bf 0 -c:a mp2 -b:a 64k
keep "$work/small.ts" film-small.csv "A film of 800 kb/s: MPEG-4, 352x288, variable rate, MP2 of 64 kb/s."
