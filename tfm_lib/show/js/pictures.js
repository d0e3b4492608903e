// The models of tfm_lib/data/pictures.py: two eyes that read a picture patch by patch, and a text model that looks.

/** The pixels of a shape on white, [red, green, blue] in [0, 1] for each, row by row. */
function drawnShape({ side, sizes, colors }, { size, color, shape, x, y }) {
  const radius = sizes[size];
  return Array.from({ length: side * side }, (_, pixel) => {
    const across = (pixel % side) + 0.5 - x, down = Math.floor(pixel / side) + 0.5 - y, square = across ** 2 + down ** 2;
    const [nearer, farther] = [Math.abs(across), Math.abs(down)].sort((one, other) => one - other);
    const inside = {
      circle: square <= radius ** 2,
      square: farther <= 0.85 * radius,
      triangle: Math.abs(down) <= radius && Math.abs(across) <= (down + radius) / 2,
      cross: farther <= radius && nearer <= 0.3 * radius,
      ring: square <= radius ** 2 && square > (0.55 * radius) ** 2,
      diamond: Math.abs(across) + Math.abs(down) <= radius,
    }[shape];
    return inside ? colors[color] : [1, 1, 1];
  });
}

/** Pixels to squares of so many a side, (P, 3 * patch * patch), row by row: all red, then all green, then all blue. */
function patchesOf(pixels, side, patch) {
  const count = side / patch;
  return Array.from({ length: count * count }, (_, p) => {
    const top = patch * Math.floor(p / count), left = patch * (p % count);
    return Float32Array.from({ length: 3 * patch * patch }, (_, i) => {
      const row = Math.floor((i % (patch * patch)) / patch), column = i % patch;
      return pixels[(top + row) * side + left + column][Math.floor(i / (patch * patch))];
    });
  });
}

/** Patches (P, 3 * patch * patch) -> vectors (1 + P, D). */
const visionTransformer = part((tensors, config) => {
  const project = linear(tensors.part("project")), norm = layerNorm(tensors.part("norm"));
  const first = tensors.vector("first"), places = tensors.rows("places");
  const layers = tensors.parts("layers", config.num_encoder_layers).map((one) => encoderLayer(one, config));
  return (patches) => {
    const x = [first, ...project(patches)].map((vector, t) => vector.map((value, i) => value + places[t][i]));
    return norm(layers.reduce((y, layer) => layer(y), x));
  };
});

const gatedCrossAttention = part((tensors, { num_heads }) => {
  const [attentionNorm, networkNorm] = ["attention_norm", "network_norm"].map((name) => layerNorm(tensors.part(name)));
  const crossAttention = multiHeadAttention(tensors.part("cross_attention"), num_heads);
  const network = feedForward(tensors.part("feed_forward")), gates = tensors.vector("gates").map(Math.tanh);
  const added = (x, more, gate) => x.map((vector, t) => vector.map((value, i) => value + gate * more[t][i]));
  return (given, memory, turned) => {
    const x = added(given, crossAttention(attentionNorm(given), memory), turned * gates[0]);
    return added(x, network(networkNorm(x)), turned * gates[1]);
  };
});

/** One token after the other: its id and place, memory (S, D), the knob on the gates, and a cache -> logits (V,). */
const describer = part((tensors, config) => {
  const text = tensors.part("text"), tokens = text.part("embedding.tokens").rows("weight");
  const embedding = inputEmbedding(text.part("embedding"), tokens, config), norm = layerNorm(text.part("norm"));
  const layers = text.parts("layers", config.num_encoder_layers).map((one) => encoderLayer(one, config));
  const looks = tensors.parts("looks", config.num_encoder_layers).map((one) => gatedCrossAttention(one, config));
  return (id, place, memory, turned, cache) => {
    const x = layers.reduce((y, layer, i) => layer(looks[i](y, memory, turned), cache[i].own), embedding([id], place));
    const [last] = norm(x);
    return tokens.map((token) => dot(token, last));
  };
});

class Pictured {
  constructor(tensors, config) {
    this.config = config;
    this.shapeEye = visionTransformer(tensors.part("shape_eye"), config);
    this.head = linear(tensors.part("head"));
    this.eye = visionTransformer(tensors.part("eye"), config);
    this.describer = describer(tensors.part("describer"), config);
  }

  /** Patches -> how likely each shape is. */
  shape(patches) {
    return softmax([...this.head([this.shapeEye(patches)[0]])[0]]);
  }

  /** Patches, the knob on the gates, and the sign to begin with -> for each of four words its id, and all chances. */
  describe(patches, turned, startId) {
    const memory = this.eye(patches), cache = decoderCache(this.config.num_encoder_layers), words = [];
    for (let id = startId, place = 0; place < 4; place++) {
      const chances = softmax(this.describer(id, place, memory, turned, cache));
      id = chances.indexOf(Math.max(...chances));
      words.push({ id, chances });
    }
    return words;
  }
}
