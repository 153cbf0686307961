// An authorization server for the tests: oidc-provider, with JWT access tokens for the resource in argv[2].
import { Provider, errors } from "oidc-provider";

const [, , resource] = process.argv;
const clients = ["ada", "bob"].map((id) => ({
  client_id: id,
  client_secret: "secret",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
  scope: "memory memory.write",
}));

function resourceServer(_ctx, indicator) {
  if (indicator !== resource && indicator !== "https://another.example/mcp") throw new errors.InvalidTarget();
  return {
    scope: "memory memory.write",
    audience: indicator,
    accessTokenFormat: "jwt",
    accessTokenTTL: indicator === resource ? 3600 : 60,
    jwt: { sign: { alg: "RS256" } },
  };
}

let provider;
const server = (await import("node:http")).createServer((request, answer) => provider.callback()(request, answer));
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = new Provider(issuer, {
    clients,
    scopes: ["memory", "memory.write"],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        getResourceServerInfo: resourceServer,
      },
    },
  });
  console.log(issuer);
});
