// Contexts: a stream of events whose texts make up the context.

import type { BuildContextResponse } from "./gen/memsvc/v1/search_service_pb.js";

/** A context. Iterate it once, or collect it with `text`. */
export class Context implements AsyncIterable<BuildContextResponse> {
  constructor(private readonly events: AsyncGenerator<BuildContextResponse>) {}

  [Symbol.asyncIterator](): AsyncIterator<BuildContextResponse> {
    return this.events;
  }

  /** Returns the texts of all items as one text, ready for a prompt. */
  async text(): Promise<string> {
    const texts: string[] = [];
    for await (const { event } of this.events) {
      if (event.case === "items") {
        texts.push(...event.value.items.map((item) => item.text));
      }
    }
    return texts.join("");
  }
}
