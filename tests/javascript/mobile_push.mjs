// Takes an endpoint of SNS through its life with the stock client of AWS, and prints each answer as JSON.
import {
  CreatePlatformEndpointCommand,
  DeleteEndpointCommand,
  GetEndpointAttributesCommand,
  PublishCommand,
  SetEndpointAttributesCommand,
  SNSClient,
} from "@aws-sdk/client-sns";

const [endpoint, region, PlatformApplicationArn, Token] = process.argv.slice(2);
const sns = new SNSClient({ endpoint, region, maxAttempts: 1 });
const answers = [];
const call = async (command) => {
  try {
    const { $metadata, ...answer } = await sns.send(command);
    answers.push({ status: $metadata.httpStatusCode, ...answer });
    return answer;
  } catch (error) {
    answers.push({ status: error.$metadata.httpStatusCode, error: error.name, message: error.message });
    return {};
  }
};

const { EndpointArn } = await call(new CreatePlatformEndpointCommand({ PlatformApplicationArn, Token }));
await call(new CreatePlatformEndpointCommand({ PlatformApplicationArn, Token, CustomUserData: "bob" }));
const Attributes = { CustomUserData: "bob <&> ütf", Enabled: "true" };
await call(new SetEndpointAttributesCommand({ EndpointArn, Attributes }));
await call(new GetEndpointAttributesCommand({ EndpointArn }));
const message = { notification: { title: "Hello", body: "world & all" }, data: { delivery_id: "d-1" } };
const push = {
  TargetArn: EndpointArn,
  MessageStructure: "json",
  Message: JSON.stringify({ default: "world", GCM: JSON.stringify({ fcmV1Message: { message } }) }),
  MessageAttributes: { "AWS.SNS.MOBILE.FCM.TTL": { DataType: "String", StringValue: "60" } },
};
await call(new PublishCommand(push));
await call(new PublishCommand({ ...push, Message: "no JSON" }));
await call(new SetEndpointAttributesCommand({ EndpointArn, Attributes: { Enabled: "false" } }));
await call(new PublishCommand(push));
await call(new DeleteEndpointCommand({ EndpointArn }));
await call(new DeleteEndpointCommand({ EndpointArn }));
await call(new GetEndpointAttributesCommand({ EndpointArn }));
await call(new PublishCommand(push));
console.log(JSON.stringify(answers));
