/**
 * For pages, into which it is put as source text, so that it uses nothing from outside: bursts of
 * tones, and ears that tell when each begins.
 */

/** When a burst began, in milliseconds since 1970, and which of the tones it was. */
export interface Burst {
  at: number;
  tone: number;
}

export function sounds() {
  const RATE = 48_000;
  /** One burst after another, of eight tones in turn: a late one is not taken for the next. */
  const EVERY_MS = 250;
  const BURST_MS = 60;
  const TONES = 8;
  const LOWEST_HZ = 600;
  const APART_HZ = 300;
  const LOUDNESS = 0.4;
  /** What counts as sound, after so many samples without. */
  const LOUD = 0.05;
  const QUIET = RATE / 10;
  /** Samples by which a tone is told. */
  const WINDOW = (RATE * 30) / 1_000;
  /** An ear looks this often at the last third of a second. */
  const LOOK_MS = 40;
  const KEPT = 16_384;
  /** Looks, two seconds of them, of which the quickest tells how the clocks stand to each other. */
  const LOOKS = 50;
  const TRIES = 3;

  const hertz = (tone: number) => LOWEST_HZ + APART_HZ * tone;

  /** All bursts, to be played without end. */
  const score = (): Float32Array<ArrayBuffer> => {
    const every = (RATE * EVERY_MS) / 1_000;
    const samples = new Float32Array(every * TONES);
    for (let tone = 0; tone < TONES; tone++) {
      for (let n = 0; n < (RATE * BURST_MS) / 1_000; n++) {
        samples[tone * every + n] = LOUDNESS * Math.sin((2 * Math.PI * hertz(tone) * n) / RATE);
      }
    }
    return samples;
  };

  /** The tone of a burst's first samples, by how often they rise through zero. */
  const toneOf = (samples: Float32Array): number => {
    let rises = 0;
    samples.forEach((one, n) => {
      if (n > 0 && one > 0 && (samples[n - 1] ?? 0) <= 0) rises += 1;
    });
    const tone = Math.round(((rises * RATE) / samples.length - LOWEST_HZ) / APART_HZ);
    return Math.max(0, Math.min(TONES - 1, tone));
  };

  /**
   * Tells bursts of samples that overlap: of each look the last ones, and the number of the sample that
   * will come next. `at` of what it tells is a sample's number.
   */
  const ear = () => {
    let [looked, quiet] = [0, 0];
    return (samples: Float32Array, next: number): Burst[] => {
      const begin = next - samples.length;
      const found: Burst[] = [];
      let n = Math.max(looked, begin, 0);
      for (; n < next - WINDOW; n++) {
        const at = n - begin;
        const loud = Math.abs(samples[at] ?? 0) > LOUD;
        if (loud && quiet >= QUIET) {
          found.push({ at: n, tone: toneOf(samples.subarray(at, at + WINDOW)) });
        }
        quiet = loud ? 0 : quiet + 1;
      }
      looked = n;
      return found;
    };
  };

  let source: MediaStreamTrack | undefined;

  /** Where the bursts come from; one for the page. */
  const speaks = (): MediaStreamTrack => {
    if (source) return source;
    const context = new AudioContext({ sampleRate: RATE });
    const samples = score();
    const buffer = context.createBuffer(1, samples.length, RATE);
    buffer.copyToChannel(samples, 0);
    const player = context.createBufferSource();
    [player.buffer, player.loop] = [buffer, true];
    const into = context.createMediaStreamDestination();
    player.connect(into);
    player.start();
    source = into.stream.getAudioTracks()[0];
    if (!source) throw new Error("no sound");
    return source;
  };

  /** Hears every burst of a track, until it is told to stop. */
  const listens = async (track: MediaStreamTrack) => {
    const context = new AudioContext({ sampleRate: RATE });
    await context.resume();
    const analyser = context.createAnalyser();
    analyser.fftSize = KEPT;
    context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const hear = ear();
    const heard: Burst[] = [];
    const offsets: number[] = [];
    /** Samples, and the time of the one after them: the sound goes on meanwhile, in steps. */
    const take = (): number => {
      for (let n = 0; n < TRIES; n++) {
        const time = context.currentTime;
        analyser.getFloatTimeDomainData(samples);
        if (context.currentTime === time) return time;
      }
      return context.currentTime;
    };
    const timer = setInterval(() => {
      const time = take();
      offsets.push(Date.now() - time * 1_000);
      if (offsets.length > LOOKS) offsets.shift();
      // Sound's clock goes in steps, so that most looks come late; none comes early.
      const offset = Math.min(...offsets);
      for (const { at, tone } of hear(samples, Math.round(time * RATE))) {
        heard.push({ at: offset + (at / RATE) * 1_000, tone });
      }
    }, LOOK_MS);
    const stop = (): Burst[] => {
      clearInterval(timer);
      void context.close();
      return heard;
    };
    return { stop, heard };
  };

  return { score, ear, speaks, listens };
}
