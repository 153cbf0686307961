// Contexts: a stream of events whose texts make up the context.

import type { BuildContextResponse } from "./gen/memsvc/v1/search_service_pb.js";

/** A context. Iterate it once, or collect it with `text`. */
export class Context implements AsyncIterable<BuildContextResponse> {
  constructor(private readonly events: AsyncGenerator<BuildContextResponse>) {}

  [Symbol.asyncIterator](): AsyncIterator<BuildContextResponse> {
    return this.events;
  }

  /**
   * Returns the whole context as one text, ready for a prompt: the texts of all events, as RenderContext joins them. The
   * first lines mark the rest as data, not instructions, and say what day it is.
   */
  async text(): Promise<string> {
    const texts: string[] = [];
    for await (const { event } of this.events) {
      if (event.case === "items") {
        texts.push(...event.value.items.map((item) => item.text));
      } else if (event.case === "plan" || event.case === "summary") {
        texts.push(event.value.text);
      }
    }
    return texts.join("");
  }
}
