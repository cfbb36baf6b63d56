/**
 * For pages, into which it is put as source text, so that it uses nothing from outside: pictures
 * that say when they were drawn, and eyes that read it where they are shown.
 */

/** A frame that was shown: when, and how long after it was drawn. */
interface Sight {
  at: number;
  ms: number;
}

export interface Seen {
  sights: Sight[];
  /** Frames that were shown, read or not, in a second. */
  perS: number;
  /** Frames whose time could not be read. */
  unread: number;
}

export function pictures() {
  /** The time stands in cells of black and white, in two rows over the upper sixth. */
  const COLUMNS = 16;
  const ROWS = 2;
  const STRIP = 1 / 6;
  /** Pixels of a cell where it is read, and those in its middle that count. */
  const CELL = 8;
  const MIDDLE = [3, 4];
  /** 24 bits of milliseconds, which begin anew after 4.6 hours, and 8 bits of a sum. */
  const WRAP = 2 ** 24;
  const AGO_MAX_MS = 60_000;
  /** Between black and white, of 255; encoders leave more. */
  const CONTRAST = 64;

  /** Not 0 for 0: neither a black nor a white picture is a time. */
  const sum = (time: number) => ((time & 255) + ((time >> 8) & 255) + (time >> 16) + 90) & 255;

  /** Which cells are white. */
  const code = (ms: number): boolean[] => {
    const time = ms % WRAP;
    const word = time * 256 + sum(time);
    return Array.from({ length: COLUMNS * ROWS }, (_, n) => Math.floor(word / 2 ** n) % 2 === 1);
  };

  /** How many milliseconds before `now` such cells were drawn; nothing if that cannot be read. */
  const age = (levels: readonly number[], now: number): number | undefined => {
    const [dark, light] = [Math.min(...levels), Math.max(...levels)];
    if (light - dark < CONTRAST) return undefined;
    const white = (level: number) => level > (dark + light) / 2;
    const word = levels.reduce((all, level, n) => all + (white(level) ? 2 ** n : 0), 0);
    const time = Math.floor(word / 256);
    if (sum(time) !== word % 256) return undefined;
    const ago = ((now % WRAP) - time + WRAP) % WRAP;
    return ago < AGO_MAX_MS ? ago : undefined;
  };

  /** Somebody before a wall, or lines on a page: enough for an encoder to do. */
  const scene = (paint: CanvasRenderingContext2D, now: number) => {
    const { width, height } = paint.canvas;
    paint.fillStyle = "#31506b";
    paint.fillRect(0, 0, width, height);
    for (let n = 0; n < 6; n++) {
      const turn = now / 1_500 + n;
      paint.fillStyle = `hsl(${n * 60} 45% 55%)`;
      paint.beginPath();
      paint.arc(
        width * (0.5 + 0.35 * Math.sin(turn)), height * (0.6 + 0.25 * Math.cos(turn * 1.3)),
        height / 10, 0, 2 * Math.PI,
      );
      paint.fill();
    }
  };

  /** A track of pictures, and when each of them was drawn. It ends when the track does. */
  const draws = ([width, height, perS]: readonly [number, number, number]) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const paint = canvas.getContext("2d", { alpha: false });
    const [track] = canvas.captureStream(0).getVideoTracks() as CanvasCaptureMediaStreamTrack[];
    if (!paint || !track) throw new Error("no canvas");
    const drawn: number[] = [];
    const draw = () => {
      const now = Date.now();
      scene(paint, now);
      const [wide, tall] = [width / COLUMNS, (height * STRIP) / ROWS];
      code(now).forEach((white, n) => {
        paint.fillStyle = white ? "#ffffff" : "#000000";
        paint.fillRect((n % COLUMNS) * wide, Math.floor(n / COLUMNS) * tall, wide, tall);
      });
      track.requestFrame();
      drawn.push(now);
    };
    const timer = setInterval(() => {
      if (track.readyState === "ended") clearInterval(timer);
      else draw();
    }, 1_000 / perS);
    return { track, drawn };
  };

  /** Looks at every frame that a page shows, until it is told to stop. */
  const watches = (video: HTMLVideoElement) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [COLUMNS * CELL, ROWS * CELL];
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    if (!paint) throw new Error("no canvas");
    const levels = () => {
      const { videoWidth, videoHeight } = video;
      paint.drawImage(video, 0, 0, videoWidth, videoHeight * STRIP, 0, 0, canvas.width, canvas.height);
      const { data } = paint.getImageData(0, 0, canvas.width, canvas.height);
      return Array.from({ length: COLUMNS * ROWS }, (_, n) => {
        const [x, y] = [(n % COLUMNS) * CELL, Math.floor(n / COLUMNS) * CELL];
        // Green is most of what brightness is.
        const points = MIDDLE.flatMap((dy) => MIDDLE.map((dx) =>
          data[4 * ((y + dy) * canvas.width + x + dx) + 1] ?? 0));
        return points.reduce((all, one) => all + one, 0) / points.length;
      });
    };
    const sights: Sight[] = [];
    let [unread, drawn, stopped] = [0, 0, false];
    let first: { at: number; frames: number } | undefined;
    let perS = 0;
    const look: VideoFrameRequestCallback = (_, { presentedFrames }) => {
      if (stopped) return;
      const at = Date.now();
      video.requestVideoFrameCallback(look);
      first ??= { at, frames: presentedFrames };
      if (at > first.at) perS = (1_000 * (presentedFrames - first.frames)) / (at - first.at);
      const ms = age(levels(), at);
      if (ms === undefined) unread += 1;
      else if (at - ms !== drawn) {
        drawn = at - ms;
        sights.push({ at, ms });
      }
    };
    video.requestVideoFrameCallback(look);
    const stop = (): Seen => {
      stopped = true;
      return { sights, unread, perS };
    };
    return { stop, sights };
  };

  return { code, age, draws, watches };
}
