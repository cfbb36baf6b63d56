"""The predictor's network and one hundred training steps, written once more and in double
precision: prints the vectors that the test compares with. `python3 predictor.py > predictor.txt`"""

SIZES = [2, 64, 64, 64, 1]


def weights():
    count = 0
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        layer = []
        for _ in range(inputs * outputs + outputs):
            layer.append(((count * 7919 + 13) % 1009 - 504) / 504 * 0.25)
            count += 1
        rows = [layer[i * outputs : (i + 1) * outputs] for i in range(inputs)]
        yield rows, layer[inputs * outputs :]


def forward(layers, x):
    values = [x]
    for number, (rows, bias) in enumerate(layers):
        out = list(bias)
        for value, row in zip(values[-1], rows):
            if value:
                out = [o + value * w for o, w in zip(out, row)]
        if number + 1 < len(layers):
            out = [max(o, 0.0) for o in out]
        values.append(out)
    return values


def train(layers, x, target, rate):
    values = forward(layers, x)
    delta = [values[-1][0] - target]
    for number in reversed(range(len(layers))):
        rows, bias = layers[number]
        before = [
            sum(w * d for w, d in zip(row, delta)) if number and value > 0 else 0.0
            for value, row in zip(values[number], rows)
        ]
        for value, row in zip(values[number], rows):
            row[:] = [w - rate * value * d for w, d in zip(row, delta)]
        bias[:] = [b - rate * d for b, d in zip(bias, delta)]
        delta = before


layers = [(rows, bias) for rows, bias in weights()]
cases = [(-1.5 + 0.37 * n, 1.1 - 0.29 * n) for n in range(8)]
print("# input input output output-after-training")
first = [forward(layers, list(case))[-1][0] for case in cases]
for step in range(100):
    a, b = cases[step % 8]
    train(layers, [a, b], 0.5 * a - abs(b), 0.005)
for (a, b), before in zip(cases, first):
    after = forward(layers, [a, b])[-1][0]
    print(f"{a:.2f} {b:.2f} {before:.6f} {after:.6f}")
