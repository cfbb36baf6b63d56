//! A clip to show and to test with: moving pictures and music, really encoded.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::Child;
use crate::exit::{Exit, Failure, io};
use crate::stop::Stop;

/// What is seen and heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    /// Of a version, so that a clip made by other settings is not taken for this one.
    file: &'static str,
    video: &'static str,
    audio: &'static str,
}

/// Test pattern with running clock and counters: a viewer sees at once whether it moves. A melody
/// over a chord, four notes each two seconds, as a formula of time.
pub(crate) const CLOCK: Scene = Scene {
    file: "clip-v1.mkv",
    video: "testsrc2=size=640x360:rate=25",
    audio: "aevalsrc=\
        exprs='0.10*sin(2*PI*t*110)+0.07*sin(2*PI*t*164.81)\
        +0.20*exp(-3*mod(t,0.5))*sin(2*PI*t*220*pow(2,mod(floor(t*2)*5,12)/12))\
        |0.10*sin(2*PI*t*110)+0.07*sin(2*PI*t*138.59)\
        +0.20*exp(-3*mod(t,0.5))*sin(2*PI*t*220*pow(2,mod(floor(t*2)*5,12)/12))'\
        :sample_rate=48000:channel_layout=stereo",
};

/// Colours that flow into one another, and two slow bells.
pub(crate) const COLOURS: Scene = Scene {
    file: "colours-v1.mkv",
    video: "gradients=size=640x360:rate=25:nb_colors=4:speed=0.02:\
        c0=0x0b7285:c1=0x364fc7:c2=0xf08c00:c3=0x2b8a3e",
    audio: "aevalsrc=\
        exprs='0.20*exp(-2*mod(t,2))*sin(2*PI*t*587.33)+0.10*exp(-2*mod(t+1,2))*sin(2*PI*t*440)\
        |0.10*exp(-2*mod(t,2))*sin(2*PI*t*587.33)+0.20*exp(-2*mod(t+1,2))*sin(2*PI*t*440)'\
        :sample_rate=48000:channel_layout=stereo",
};

const SECONDS: u32 = 30;

/// H.264 without B-frames, so that nothing waits for a later frame, and one key frame a second,
/// so that whoever comes late or loses something waits no longer than that.
const ENCODING: &str = "-c:v libx264 -preset veryfast -tune zerolatency -profile:v baseline \
    -pix_fmt yuv420p -g 25 -b:v 800k -maxrate 800k -bufsize 400k -c:a libopus -b:a 96k";

/// How soon a wish to end is heeded while a clip is made.
const NAP: Duration = Duration::from_millis(50);

/// The clip of a scene in `folder`, made if it is not there.
///
/// # Errors
/// FFmpeg is missing or fails, or `stop` was set meanwhile.
pub(crate) fn clip(folder: &Path, scene: Scene, stop: &Stop) -> Result<PathBuf, Failure> {
    let path = folder.join(scene.file);
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(folder).map_err(io(folder.display()))?;
    let beside = folder.join(format!("new-{}-{}", std::process::id(), scene.file));
    let seconds = SECONDS.to_string();
    let words = "-y -nostdin -hide_banner -loglevel error -f lavfi -i".split(' ');
    let mut args: Vec<String> = words
        .chain([
            scene.video,
            "-f",
            "lavfi",
            "-i",
            scene.audio,
            "-t",
            &seconds,
        ])
        .chain(ENCODING.split(' '))
        .map(str::to_owned)
        .collect();
    args.push(beside.display().to_string());
    let mut ffmpeg = Child::start("ffmpeg", &args, Stdio::null())?;
    while !ffmpeg.ends_within(NAP) {
        if stop.is_set() {
            return Err(Failure::new(Exit::Failure, "the clip was called off"));
        }
    }
    ffmpeg.wait()?;
    std::fs::rename(&beside, &path).map_err(io(path.display()))?;
    Ok(path)
}
