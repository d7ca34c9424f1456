locals {
  alarms = merge(
    merge([
      for name in keys(local.functions) : {
        "${name}-errors" = {
          text      = "The function ${name} ends with an error."
          namespace = "AWS/Lambda", metric = "Errors", statistic = "Sum", period = 300, periods = 1, above = 0
          of        = { FunctionName = aws_lambda_function.this[name].function_name }
        }
        "${name}-throttles" = {
          text      = "The function ${name} is throttled for a quarter of an hour."
          namespace = "AWS/Lambda", metric = "Throttles", statistic = "Sum", period = 300, periods = 3, above = 0
          of        = { FunctionName = aws_lambda_function.this[name].function_name }
        }
      }
    ]...),
    merge([
      for name in keys(local.queues) : {
        "${name}-dead-letters" = {
          text      = "Messages of the ${name} queue could not be handled and are among its dead letters."
          namespace = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum"
          period    = 60, periods = 1, above = 0
          of        = { QueueName = aws_sqs_queue.dead_letters[name].name }
        }
        "${name}-age" = {
          text      = "The oldest message of the ${name} queue waits for too long."
          namespace = "AWS/SQS", metric = "ApproximateAgeOfOldestMessage", statistic = "Maximum"
          period    = 60, periods = 3, above = var.oldest_message_seconds
          of        = { QueueName = aws_sqs_queue.this[name].name }
        }
      }
    ]...)
  )
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each            = local.alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.text
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.of
  statistic           = each.value.statistic
  period              = each.value.period
  evaluation_periods  = each.value.periods
  threshold           = each.value.above
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = compact([var.alarm_topic_arn])
  ok_actions          = compact([var.alarm_topic_arn])
}
