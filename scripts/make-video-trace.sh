#!/bin/sh
# Encodes the bench's video clip and keeps its frame sizes as numbers in lab/bench/data.
#
# The clip stands in for the papers' (Uyar & Fox 2005, section 2): two minutes of one speaker,
# H.263, 15 frames/s, 280 kb/s. A head sways before a soft background, its mouth moves and the
# camera adds noise; a key frame comes every 5 s. The encoder's first 5 s, while its rate control
# settles, are left out, since the bench plays the clip over and over. Needs FFmpeg with libavcodec's h263 encoder.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/lab/bench/data/video-280k.csv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rate=15
seconds=120
settle=5
length=$((seconds + settle))

background="gradients=s=352x288:r=$rate:d=$length:seed=7:speed=0.0005"
background="$background:c0=0x203040:c1=0x8090a0:c2=0x605040"

# One still picture of a cellular automaton, blurred, gives the face its texture.
skin="life=s=44x36:r=$rate:mold=10:seed=3"
skin="$skin:life_color=0xe0b090:death_color=0x805040:mold_color=0x603020"
skin="$skin,trim=end_frame=40,select=gte(n\\,30),scale=352:288,gblur=5"
skin="$skin,trim=end_frame=1,loop=-1:1,setpts=N/$rate/TB"

mouth="life=s=12x6:r=5:ratio=0.4:mold=5:seed=5:life_color=0x803030:death_color=0xd0a080"
mouth="$mouth,fps=$rate,scale=48:24,gblur=2"

oval="if(lt(pow((X-60)/58,2)+pow((Y-80)/78,2),1),255,0)"
scene="[1]crop=120:160,format=yuva420p"
scene="$scene,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='$oval'[skull]"
scene="$scene;[2]format=yuv420p[mouth];[skull][mouth]overlay=x=36:y='112+2*sin(t*9)'[face]"
scene="$scene;[0][face]overlay=x='116+14*sin(t*1.3)+5*sin(t*4.1)':y='70+6*sin(t*2.2)'"
scene="$scene,noise=alls=5:allf=t:all_seed=11,format=yuv420p"

echo "encoding $seconds s of H.263 at 280 kb/s" >&2
ffmpeg -nostdin -v error -y \
    -f lavfi -i "$background" -f lavfi -i "$skin" -f lavfi -i "$mouth" \
    -filter_complex "$scene" -t "$length" -r "$rate" -threads 1 \
    -c:v h263 -b:v 280k -maxrate 280k -bufsize 280k -g $((rate * 5)) "$work/clip.3gp"

{
    echo "# Frames of a really encoded clip: H.263, CIF, $rate frames/s, 280 kb/s, $seconds s."
    echo "# Made by scripts/make-video-trace.sh with $(ffmpeg -version | head -n 1 | cut -d' ' -f1-3)."
    echo "bytes,key"
    ffprobe -v error -select_streams v -show_entries packet=size,flags -of csv=p=0 \
        "$work/clip.3gp" | tail -n +$((rate * settle + 1)) | sed -e 's/,K.*/,1/' -e 's/,_.*/,0/'
} >"$work/trace.csv"
mv "$work/trace.csv" "$out"
echo "wrote $out" >&2
