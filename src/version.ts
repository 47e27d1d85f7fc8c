/** The version of this build; `package.json` is its source. */
import { version } from "../package.json" with { type: "json" };

export const VERSION: string = version;
