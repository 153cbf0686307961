// Calls of the API by the Connect protocol in JSON: unary calls, streams of responses, errors with their reasons.

const PACKAGE = "memsvc.v1.";
const END_OF_STREAM = 2;

/** An error of the API. `reason` is that of ErrorInfo, `violations` the fields that are wrong. */
export class ApiError extends Error {
  constructor(told, status) {
    super(told.message || told.code || `HTTP ${status}`);
    this.code = told.code || "unknown";
    const details = (told.details || []).map((one) => one.debug || {});
    const info = details.find((one) => one.reason) || {};
    this.reason = (info.reason || "").replace("ERROR_REASON_", "");
    this.violations = details.flatMap((one) => one.fieldViolations || []);
  }
}

/** Awaits a promise of the network; its failure is an error of the API, except that of an aborted call. */
async function reached(promise, signal) {
  try {
    return await promise;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError({ code: "unreachable", message: error.message });
  }
}

export function createApi(getKey) {
  function headers(type) {
    const key = getKey();
    // The browser would refuse to send it, in words of its own.
    if (/[^!-~]/.test(key)) throw new ApiError({ code: "unauthenticated", message: "The API key has characters that no key has." });
    const found = { "content-type": type, "connect-protocol-version": "1" };
    if (key) found.authorization = `Bearer ${key}`;
    return found;
  }

  async function call(service, method, request = {}, signal) {
    const sent = { method: "POST", headers: headers("application/json"), body: JSON.stringify(request), signal };
    const response = await reached(fetch(`/${PACKAGE}${service}Service/${method}`, sent), signal);
    const text = await reached(response.text(), signal);
    let told;
    try {
      told = JSON.parse(text);
    } catch {
      told = { message: text.slice(0, 200) };
    }
    if (!response.ok) throw new ApiError(told, response.status);
    return told;
  }

  /** Calls `onMessage` with each response of a stream; returns when the stream has ended. */
  async function stream(service, method, request, onMessage, signal) {
    const sent = { method: "POST", headers: headers("application/connect+json"), body: envelope(JSON.stringify(request)), signal };
    const response = await reached(fetch(`/${PACKAGE}${service}Service/${method}`, sent), signal);
    if (!response.ok) throw new ApiError(await response.json().catch(() => ({})), response.status);
    const reader = response.body.getReader();
    let rest = new Uint8Array(0);
    for (;;) {
      const { done, value } = await reached(reader.read(), signal);
      // Only the last message says that all of it has come.
      if (done) throw new ApiError({ code: "unreachable", message: "The response ended early." });
      rest = joined(rest, value);
      for (;;) {
        const frame = firstFrame(rest);
        if (!frame) break;
        rest = rest.subarray(frame.size);
        const told = JSON.parse(frame.text);
        if (frame.flags & END_OF_STREAM) {
          if (told.error) throw new ApiError(told.error, 200);
          return;
        }
        onMessage(told);
      }
    }
  }

  return { call, stream };
}

function envelope(text) {
  const data = new TextEncoder().encode(text);
  const whole = new Uint8Array(5 + data.length);
  new DataView(whole.buffer).setUint32(1, data.length);
  whole.set(data, 5);
  return whole;
}

function joined(first, second) {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function firstFrame(bytes) {
  if (bytes.length < 5) return null;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  if (bytes.length < 5 + length) return null;
  return { flags: bytes[0], size: 5 + length, text: new TextDecoder().decode(bytes.subarray(5, 5 + length)) };
}
