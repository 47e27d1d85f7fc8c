/** The published contracts: every document that crosses a process boundary, as JSON Schema (draft 2020-12). */
import { z } from "zod";
import { AnnouncementSchema } from "./announcement.ts";
import { ChangesFileSchema } from "./changes.ts";
import { CompletionSchema } from "./completion.ts";
import { ErrorSchema } from "./error.ts";
import { EventSchema } from "./event.ts";
import { QueryResultSchema } from "./query-result.ts";
import { ReceiptSchema } from "./receipt.ts";
import { RootSchema } from "./root.ts";
import { RunListSchema } from "./run-list.ts";
import { RunSpecSchema } from "./run-spec.ts";

const SCHEMAS: Record<string, z.ZodType> = {
  "run-spec": RunSpecSchema,
  receipt: ReceiptSchema,
  event: EventSchema,
  changes: ChangesFileSchema,
  completion: CompletionSchema,
  announcement: AnnouncementSchema,
  error: ErrorSchema,
  "query-result": QueryResultSchema,
  "run-list": RunListSchema,
  root: RootSchema,
};

/** By published name (`receipt`), in the order of the documentation. */
export function publishedSchemas(): Record<string, object> {
  return Object.fromEntries(
    Object.entries(SCHEMAS).map(([name, schema]) => [
      name,
      {
        $id: `agent-shell/${name}@1`,
        title: name,
        ...z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" }),
      },
    ]),
  );
}
